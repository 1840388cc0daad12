"""A tab of Chromium, driven by Playwright, for tests of the console. Without either of them, tests are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from support.chromium import installed

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

PATIENCE_MS = 60_000
SERVER_ERROR = 500
DESK = ("light", {"width": 1280, "height": 900})
PHONE = ("dark", {"width": 390, "height": 844})


@contextmanager
def browser_tab(problems: list[str]) -> Iterator[Any]:
    """`problems` gets the errors of scripts and requests, and dialogs, which only hostile texts could open."""
    program = installed()
    if program is None:
        pytest.skip("no Chromium here: apt install chromium")
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which(program), args=["--no-sandbox"])
        scheme, size = DESK
        tab = browser.new_page(viewport=size, color_scheme=scheme)
        tab.set_default_timeout(PATIENCE_MS)
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        tab.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
        yield tab
        browser.close()


def axe_of(tab: Any) -> list[tuple[str, list[str]]]:
    """What axe finds in the page as it is now: the rule, and the elements."""
    found = axe.Axe().run(tab).response["violations"]
    return [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found]


def faults(tab: Any, addresses: Sequence[str], prepare: Callable[[str], None] = lambda _: None) -> list[object]:
    """What axe finds in these pages, light on a desk and dark on a phone, and pages that are wider than the window.

    `prepare` is called with the address of each page that is open.
    """
    found: list[object] = []
    for scheme, size in (DESK, PHONE):
        tab.emulate_media(color_scheme=scheme)
        tab.set_viewport_size(size)
        for address in addresses:
            answer = tab.goto(address)
            if answer.status >= SERVER_ERROR:
                found.append((address, answer.status))
            prepare(address)
            found += [(address, scheme, *each) for each in axe_of(tab)]
            if not tab.evaluate("document.documentElement.scrollWidth <= innerWidth"):
                found.append((address, scheme, "wider than the window"))
    scheme, size = DESK
    tab.emulate_media(color_scheme=scheme)
    tab.set_viewport_size(size)
    return found
