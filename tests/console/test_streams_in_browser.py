"""Streams applications in a real browser: an operator finds a failed application, and the dead letters of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest

from odradek.client.admin import Admin
from odradek.console.applications.seen import Applications, applications_of
from odradek.console.pages.streams import REASON
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.testing import Embedded
from support.browser_tab import DESK, PHONE, browser_tab, faults
from support.example_applications import LETTERS, announce_examples
from support.waiting import wait_until

PAGES = (
    "/streams",
    "/streams?show=problems",
    "/streams/fleet",
    "/streams/order-totals",
    "/streams/web-sessions",
    "/streams/nightly-warehouse-export",
    f"/topics/{LETTERS}?{urlencode({'columns': REASON})}",
    f"/topics/{LETTERS}/messages/0/0",
)


@dataclass
class Stage:
    url: str
    tab: Any
    problems: list[str]

    def open(self, path: str) -> None:
        self.tab.goto(self.url + path)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    problems: list[str] = []
    with (
        Embedded() as broker,
        running(ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0)) as (console, server),
        browser_tab(problems) as tab,
    ):
        Admin(broker.bootstrap_servers).create_topic("positions", 1)
        announce_examples(broker.bootstrap_servers)

        def is_complete(seen: Applications | None) -> bool:
            fleet = seen.named("fleet") if seen is not None else None
            return fleet is not None and fleet.picture is not None and fleet.dead_letters == 3

        wait_until(lambda: is_complete(applications_of(console.snapshot)), "the console knows all of them")
        yield Stage(server.url, tab, problems)


def test_an_operator_looks_at_applications(stage: Stage) -> None:
    """One story, because all of it needs the same browser."""
    the_failed_application_is_found_from_the_overview(stage)
    the_dead_letters_are_reached_from_the_list(stage)
    the_keyboard_opens_the_list_and_a_filter_keeps_problems(stage)
    the_state_is_seen_on_a_phone(stage)
    assert faults(stage.tab, [stage.url + path for path in PAGES]) == []
    assert stage.problems == []


def the_failed_application_is_found_from_the_overview(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/")
    tab.locator("#verdict.bad").wait_for()
    assert "Application order-totals has failed: query totals" in tab.locator("#verdict").inner_text()
    tab.locator("#verdict").get_by_role("link", name="Show", exact=False).click()
    tab.wait_for_url("**/streams/order-totals")
    assert "decimal.InvalidOperation" in tab.locator("#error pre.trace").inner_text()


def the_dead_letters_are_reached_from_the_list(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/streams")
    tab.get_by_role("link", name="fleet", exact=True).click()
    tab.wait_for_url("**/streams/fleet")
    assert tab.locator("#topology svg.picture").count() == 1
    tab.locator("#facts").get_by_role("link", name="3", exact=True).click()
    tab.wait_for_url(f"**/topics/{LETTERS}?columns=*")
    row = tab.locator("tr[data-place]").first
    assert "is no double" in row.inner_text()
    row.click()
    details = tab.locator(".details .message").first
    details.wait_for()
    assert "is no double" in details.inner_text()
    assert details.get_by_role("link", name="Redrive to positions…").count() == 1


def the_keyboard_opens_the_list_and_a_filter_keeps_problems(stage: Stage) -> None:
    tab = stage.tab
    tab.keyboard.press("g")
    tab.keyboard.press("s")
    tab.wait_for_url("**/streams")
    tab.get_by_role("link", name="Problems").click()
    tab.wait_for_url("**/streams?show=problems")
    assert tab.locator("#applications tbody td.name a").all_inner_texts() == ["order-totals", "web-sessions"]


def the_state_is_seen_on_a_phone(stage: Stage) -> None:
    tab = stage.tab
    width = PHONE[1]["width"]
    tab.set_viewport_size(PHONE[1])
    stage.open("/streams")
    for chip in tab.locator("#applications tbody .chip").all():
        box = chip.bounding_box()
        assert box["x"] + box["width"] <= width, chip.inner_text()
    tab.set_viewport_size(DESK[1])
