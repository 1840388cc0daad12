"""Topics in a real browser: what a developer does with them, in one story, because all of it needs the same browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from odradek.client import Admin, Producer
from odradek.testing import Embedded
from support.browser_tab import browser_tab, faults
from support.consoles import Running
from support.waiting import wait_until

TOPIC = "browsed"
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"


@dataclass
class Stage:
    broker: Embedded
    console: Running
    tab: Any
    problems: list[str]

    def open(self, path: str) -> None:
        self.tab.goto(self.console.url + path)

    def sees(self, text: str) -> None:
        self.tab.get_by_text(text).first.wait_for()

    def searched(self) -> None:
        self.tab.locator("[data-found][data-state=ended]").wait_for()

    @property
    def keys(self) -> list[str]:
        return self.tab.locator("tr[data-place] .key").all_inner_texts()


@pytest.fixture(scope="module")
def stage(broker: Embedded, console: Running) -> Iterator[Stage]:
    Admin(broker.bootstrap_servers).create_topic(TOPIC, 2)
    with Producer(bootstrap=broker.bootstrap_servers) as producer:
        for number in range(120):
            value = {"speed": number, "driver": {"name": f"driver {number}"}, "html": HOSTILE}
            producer.send(TOPIC, json.dumps(value).encode(), str(number).encode(), headers={HOSTILE: HOSTILE})
        producer.send(TOPIC, HOSTILE.encode(), HOSTILE.encode())
    problems: list[str] = []
    with browser_tab(problems) as tab:
        stage = Stage(broker, console, tab, problems)
        wait_until(lambda: TOPIC in console.console.snapshot.topics, "the console sees the topic")
        yield stage


def test_a_developer_at_work(stage: Stage) -> None:
    a_message_is_found_by_its_key(stage)
    payloads_stay_text(stage)
    a_wrong_filter_is_explained(stage)
    records_appear_live(stage)
    more_records_follow(stage)
    a_topic_is_created_changed_and_deleted(stage)
    every_page_is_accessible_and_fits(stage)
    refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"  # by the broker
    assert stage.problems == [refused]


def a_message_is_found_by_its_key(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/topics")
    tab.get_by_role("link", name=TOPIC, exact=True).click()
    stage.searched()
    assert len(stage.keys) == 50
    tab.get_by_label("Filter", exact=True).fill('key == "17"')
    tab.get_by_label("Columns").fill("value.driver.name")
    tab.get_by_role("button", name="Search").click()
    stage.sees("1 found in 121 records")
    assert stage.keys == ["17"]
    assert tab.get_by_role("cell", name="driver 17", exact=True).count() == 1
    tab.locator("tr[data-place]").click()
    pretty = tab.locator(".details pre").first
    assert json.loads(pretty.inner_text())["speed"] == 17
    link = tab.get_by_role("link", name="Link to this message").get_attribute("href")
    tab.goto(stage.console.url + link)
    stage.sees("Value")
    assert "odradek consume" in tab.locator(".command pre").first.inner_text()
    tab.get_by_role("link", name="Produce again").click()
    assert tab.get_by_label("Key", exact=True).input_value() == "17"
    tab.get_by_role("button", name="Produce", exact=True).click()
    stage.sees("Wrote partition")


def payloads_stay_text(stage: Stage) -> None:
    tab = stage.tab
    stage.open(f"/topics/{TOPIC}?filter=value+contains+%22%3Cimg%22&limit=100")
    stage.searched()
    row = tab.locator("tr[data-place]", has_text=HOSTILE).last
    row.click()
    tab.locator(".details .message").first.wait_for()
    assert tab.locator("#messages img").count() == 0
    assert tab.evaluate("document.title").startswith(TOPIC)


def a_wrong_filter_is_explained(stage: Stage) -> None:
    tab = stage.tab
    tab.get_by_label("Filter", exact=True).fill("value.speed = 80")
    tab.get_by_role("button", name="Search").click()
    stage.sees("Filter, column 13")
    assert tab.get_by_label("Filter", exact=True).get_attribute("aria-invalid") == "true"


def records_appear_live(stage: Stage) -> None:
    tab = stage.tab
    stage.open(f"/topics/{TOPIC}?from=live&filter=value.speed+%3E+500")
    tab.locator("[data-found][data-ready]").wait_for()
    with Producer(bootstrap=stage.broker.bootstrap_servers) as producer:
        for speed in (400, 600, 700):
            producer.send(TOPIC, json.dumps({"speed": speed}).encode(), f"live {speed}".encode(), partition=0).result()
    tab.get_by_text("live 700").wait_for()
    assert stage.keys == ["live 700", "live 600"]
    tab.get_by_role("button", name="Stop").click()
    wait_until(lambda: not [each for each in threading.enumerate() if each.name == "odradek-console-live"], "it stops")


def more_records_follow(stage: Stage) -> None:
    tab = stage.tab
    stage.open(f"/topics/{TOPIC}?from=oldest&limit=100")
    stage.searched()
    tab.get_by_role("button", name="More").click()
    wait_until(lambda: len(stage.keys) > 100, "the rest follows")
    assert len(set(tab.locator("tr[data-place]").evaluate_all("rows => rows.map(row => row.dataset.place)"))) == len(
        stage.keys
    )


def a_topic_is_created_changed_and_deleted(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/topics")
    tab.get_by_role("link", name="Create a topic").click()
    tab.get_by_role("link", name="Short-lived").click()
    tab.locator("[name=name]").fill("made-here")
    tab.locator("[name=partitions]").fill("2")
    tab.get_by_role("button", name="Create").click()
    stage.sees("Created the topic made-here.")
    tab.get_by_role("link", name="Configuration").click()
    tab.get_by_text("retention.bytes").click()
    tab.get_by_label("New value of retention.bytes").fill("much")
    tab.locator("#config-retention\\.bytes").get_by_role("button", name="Save").click()
    stage.sees("was not changed")
    tab.get_by_label("New value of retention.bytes").fill("1048576")
    tab.locator("#config-retention\\.bytes").get_by_role("button", name="Save").click()
    stage.sees("retention.bytes is now 1048576.")
    assert Admin(stage.broker.bootstrap_servers).topic_config("made-here")["retention.bytes"] == "1048576"
    tab.get_by_role("link", name="Manage").click()
    tab.get_by_label("Type made-here to delete it", exact=True).fill("made-here")
    tab.get_by_role("button", name="Delete the topic").click()
    stage.sees("Deleted the topic made-here.")
    assert "made-here" not in Admin(stage.broker.bootstrap_servers).topics()


def every_page_is_accessible_and_fits(stage: Stage) -> None:
    tab = stage.tab
    pages = [
        "/topics", f"/topics/{TOPIC}/produce", f"/topics/{TOPIC}", "/create-topic", f"/topics/{TOPIC}/configuration",
        f"/topics/{TOPIC}/partitions", f"/topics/{TOPIC}/manage", f"/topics/{TOPIC}/consumers",
        f"/topics/{TOPIC}/messages/0/0", f"/delete-topics?topic={TOPIC}",
    ]  # fmt: skip

    def prepare(address: str) -> None:
        if address.endswith(f"/topics/{TOPIC}"):
            stage.searched()
            tab.locator("tr[data-place] .toggle").first.click()
            tab.locator(".details .message").first.wait_for()

    assert faults(tab, [stage.console.url + path for path in pages], prepare) == []
