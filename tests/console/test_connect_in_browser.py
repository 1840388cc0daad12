"""Connectors in a real browser: one story, because all of it needs the same service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from odradek.client.admin import Admin
from odradek.console.connectors.seen import connect_of
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.testing import Embedded
from support.browser_tab import DESK, PHONE, browser_tab, faults, playwright
from support.connect_service import Service, connect_service, eventually
from support.waiting import wait_until

FAILING = {
    "connector.class": "files-sink",
    "topics": "clicked",
    "path": "/dev/null/<img src=x onerror=alert(1)>",
    "restart.attempts.max": "0",
}


@dataclass
class Stage:
    service: Service
    url: str
    tab: Any
    problems: list[str]

    def open(self, path: str) -> None:
        self.tab.goto(self.url + path)

    def sees(self, text: str) -> None:
        try:
            self.tab.get_by_text(text).first.wait_for()
        except playwright.TimeoutError:
            raise AssertionError(f"{text!r} is not in: {self.tab.locator('main').inner_text()[:2000]}") from None

    def click(self, name: str) -> None:
        self.tab.get_by_role("button", name=name, exact=True).first.click()

    def one(self, name: str, tab: str = "") -> str:
        return f"/connect/{self.service.url.removeprefix('http://')}/{name}" + (f"?tab={tab}" if tab else "")


@pytest.fixture(scope="module")
def stage(broker: Embedded) -> Iterator[Stage]:
    problems: list[str] = []
    Admin(broker.bootstrap_servers).create_topic("clicked", 1)
    with (
        connect_service(broker.bootstrap_servers) as service,
        running(ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0, connect=(service.url,))) as (
            console,
            server,
        ),
        browser_tab(problems) as tab,
    ):
        stage = Stage(service, server.url, tab, problems)
        wait_until(lambda: connect_of(console.snapshot), "the console has asked the service")
        yield stage
        for name in service.http.get("/connectors").json():  # other tests use the same broker
            service.http.delete(f"/connectors/{name}")


def test_connectors_at_work(stage: Stage) -> None:
    a_connector_is_created_by_its_form(stage)
    a_failing_connector_is_found_from_the_overview_and_restarted(stage)
    every_page_is_accessible_and_fits(stage)
    a_connector_is_paused_and_edited(stage)
    a_connector_is_deleted(stage)
    refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
    assert set(stage.problems) == {refused}


def a_connector_is_created_by_its_form(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/")
    tab.get_by_role("link", name="Connect", exact=False).first.click()
    tab.get_by_role("link", name="Create a connector").click()
    tab.get_by_role("link", name="Datagen").first.click()
    tab.locator("[name=name]").fill("clicks")
    tab.locator("[name='o:topic']").fill("clicked")
    tab.locator("[name='o:rate']").fill("fast")
    stage.click("Create")
    stage.sees("which is not a number")
    assert tab.locator("[aria-invalid=true]").input_value() == "fast"
    tab.locator("[aria-invalid=true]").fill("50")
    stage.click("Check")
    stage.sees("No option has an error.")
    stage.click("Create")
    stage.sees("Connector clicks was created.")
    tab.locator("#facts .chip.good").wait_for()
    eventually(lambda: stage.service.states("clicks") == ["RUNNING"])


def a_failing_connector_is_found_from_the_overview_and_restarted(stage: Stage) -> None:
    tab = stage.tab
    stage.service.http.post("/connectors", json={"name": "doomed", "config": FAILING})
    stage.open("/")
    tab.locator("#verdict.bad").wait_for()
    stage.sees("Connector doomed has failed")
    assert "NotADirectoryError" in tab.locator("#verdict .why").inner_text()
    tab.get_by_role("link", name="Show", exact=False).first.click()
    assert "NotADirectoryError" in tab.locator("pre.trace").inner_text()
    assert tab.locator("main img").count() == 0
    before = len(stage.service.http.get("/connectors/doomed/logs").json())
    stage.click("Restart what has failed")
    stage.sees("is started again.")
    eventually(lambda: len(stage.service.http.get("/connectors/doomed/logs").json()) > before, "it has failed again")
    eventually(lambda: stage.service.states("doomed") == ["FAILED"])


def every_page_is_accessible_and_fits(stage: Stage) -> None:
    tab = stage.tab
    tabs = ("", "config", "offsets", "logs", "manage")
    service = stage.service.url.removeprefix("http://")
    pages = [
        "/connect",
        "/create-connector",
        f"/create-connector?service={service}&plugin=sql-sink",
        f"/edit-connector?service={service}&name=doomed",
        *(stage.one("doomed", each) for each in tabs),
    ]
    assert faults(tab, [stage.url + path for path in pages]) == []
    tab.set_viewport_size(PHONE[1])
    stage.open(stage.one("doomed"))
    trace = tab.locator("pre.trace").bounding_box()
    assert trace["x"] + trace["width"] <= PHONE[1]["width"], "the trace is read without scrolling to the side"
    tab.set_viewport_size(DESK[1])


def a_connector_is_paused_and_edited(stage: Stage) -> None:
    tab = stage.tab
    stage.open(stage.one("clicks"))
    stage.click("Pause")
    stage.sees("clicks is being paused.")
    eventually(lambda: stage.service.states("clicks") == ["PAUSED"])
    stage.click("Resume")
    eventually(lambda: stage.service.states("clicks") == ["RUNNING"])
    tab.get_by_role("link", name="Config").click()
    tab.get_by_role("link", name="Edit", exact=True).click()
    tab.locator("[name='o:rate']").fill("75")
    stage.click("Store")
    stage.sees("The config of clicks was stored.")
    assert stage.service.http.get("/connectors/clicks/config").json()["rate"] == "75"


def a_connector_is_deleted(stage: Stage) -> None:
    stage.open(stage.one("doomed", "manage"))
    stage.tab.get_by_label("Type doomed to delete it", exact=True).fill("doomed")
    stage.click("Delete the connector")
    stage.sees("Connector doomed was deleted.")
    stage.open("/")
    stage.tab.locator("#verdict:not(.bad)").wait_for()
