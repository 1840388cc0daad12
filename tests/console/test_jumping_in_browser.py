"""Ctrl-K in a real browser: answers that are late, refused, or in another order than before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.testing import Embedded
from support.browser_tab import browser_tab

PASSWORD = "correct horse"
ANSWERS = "**/jump?*"


@pytest.fixture(scope="module")
def tab(broker: Embedded) -> Iterator[Any]:
    """A tab of a user who has signed in, on a page that does not refresh itself."""
    settings = ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0, password=PASSWORD)
    with running(settings) as (console, server), browser_tab([]) as tab:
        console.collector.wait_for_first(60)
        tab.context.add_cookies([{"name": "odradek-refresh", "value": "off", "url": server.url}])
        tab.home = f"{server.url}/quorum"
        tab.goto(tab.home)
        tab.get_by_label("Password").fill(PASSWORD)
        tab.keyboard.press("Enter")
        tab.wait_for_url(f"{server.url}/")
        yield tab


@pytest.fixture(autouse=True)
def dialog(tab: Any) -> Iterator[None]:
    tab.goto(tab.home)
    tab.keyboard.press("Control+k")
    tab.locator("#jump [role=option]").first.wait_for()
    yield
    tab.unroute_all()


def answer(tab: Any, *names: str) -> None:
    found = [{"kind": "topic", "name": name, "href": f"/topics/{name}"} for name in names]
    tab.unroute_all()
    tab.route(ANSWERS, lambda route: route.fulfill(status=200, body=json.dumps(found)))


def type_without_answer(tab: Any, text: str) -> None:
    """As if Enter was pressed before the console could answer."""
    tab.get_by_role("combobox", name="Go to").evaluate("(field, text) => { field.value = text; }", text)


def test_enter_goes_to_the_highlighted_option_although_the_next_answer_has_another_order(tab: Any) -> None:
    answer(tab, "a", "b", "c")
    tab.keyboard.type("t")
    tab.get_by_role("option", name="b topic").wait_for()
    tab.keyboard.press("ArrowDown")
    answer(tab, "new", "a", "b", "c")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/topics/*")
    assert tab.url.endswith("/topics/b")


@pytest.mark.parametrize(("arrow", "there"), [("ArrowDown", "b"), (None, "new")])
def test_enter_before_the_answer_keeps_only_an_option_that_was_picked(tab: Any, arrow: str | None, there: str) -> None:
    answer(tab, "a", "b", "c")
    tab.keyboard.type("t")
    tab.get_by_role("option", name="b topic").wait_for()
    if arrow:
        tab.keyboard.press(arrow)
    answer(tab, "new", "a", "b", "c")
    type_without_answer(tab, "to")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/topics/*")
    assert tab.url.endswith(f"/topics/{there}")


def test_a_failed_search_does_not_look_like_an_empty_one(tab: Any) -> None:
    tab.route(ANSWERS, lambda route: route.fulfill(status=503, body="{}"))
    tab.keyboard.type("t")
    said = tab.locator("#jump [role=status]:not(:empty)")
    assert said.inner_text() == "The console cannot be reached."


def test_after_the_session_has_expired_the_search_leads_to_the_sign_in_page(tab: Any) -> None:
    """The last test: it signs the user out."""
    tab.context.clear_cookies()
    tab.keyboard.type("t")
    tab.locator("#jump [role=status]:not(:empty)").or_(tab.get_by_label("Password")).first.wait_for()
    assert tab.url.endswith("/sign-in")
