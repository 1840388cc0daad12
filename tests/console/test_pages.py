"""The console in a real browser, against a live cluster of three nodes with traffic: what an operator does with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from odradek.client.admin import Admin
from odradek.console.configs import Kind, read_configs
from odradek.console.frame import Console
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.testing import Embedded
from support.browser_tab import DESK, PHONE, axe_of, browser_tab, faults
from support.console_traffic import Reader, Traffic
from support.waiting import wait_until

STRANGE = "<img src=x onerror=alert(1)>/&?#"
PAGES = (
    "/",
    "/recent",
    "/brokers",
    "/brokers/1",
    "/brokers/1?tab=configs&q=retention&edit=log.retention.ms",
    "/brokers/1?tab=metrics",
    "/brokers/1?tab=mbeans&mbean=kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec",
    "/quorum",
    "/groups",
    "/groups/billing",
    "/groups/billing?tab=members",
    "/groups/audit?tab=reset&to=earliest",
    "/nowhere",
)


@dataclass
class Stage:
    cluster: Embedded
    console: Console
    url: str
    tab: object
    problems: list[str]

    def open(self, path: str) -> None:
        self.tab.goto(self.url + path)

    def sees(self, text: str) -> None:
        self.tab.get_by_text(text).first.wait_for()


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    problems: list[str] = []
    readers = [
        Reader(group="billing", topics=["orders"]),
        Reader(group="audit", topics=["orders"], rounds=8),
        Reader(group=STRANGE, topics=["orders"], rounds=8),
    ]
    with (
        Embedded(brokers=3) as cluster,
        Traffic(cluster.bootstrap_servers, {"orders": 10, "clicks": 20}, readers),
        running(ConsoleSettings(bootstrap=cluster.bootstrap_servers, port=0)) as (console, server),
        browser_tab(problems) as tab,
    ):
        stage = Stage(cluster=cluster, console=console, url=server.url, tab=tab, problems=problems)
        admin = Admin(cluster.bootstrap_servers)
        admin.create_topic("careful", 1, {"min.insync.replicas": "3"}, replication_factor=3)
        wait_until(lambda: all(admin.committed(name) for name in ("billing", "audit", STRANGE)), "the groups commit")
        wait_until(lambda: not admin.group("audit").members, "audit has left")
        wait_until(lambda: console.snapshot.lag_is_known, "the console has read the commits")
        wait_until(lambda: len(console.snapshot.groups) == 3, "the console lists the groups")
        yield stage


def test_an_operator_at_work(stage):
    """One story, because every page needs the same cluster."""
    every_page_is_accessible_and_fits(stage)
    the_keyboard_goes_everywhere(stage)
    a_name_is_found_from_any_page(stage)
    a_page_keeps_itself_up_to_date(stage)
    names_of_strangers_are_only_text(stage)
    a_group_with_members_cannot_be_reset(stage)
    a_group_is_reset(stage)
    a_config_is_changed_and_set_back(stage)
    assert stage.problems == ["Failed to load resource: the server responded with a status of 404 (Not Found)"] * 2
    a_dead_broker_changes_the_verdict(stage)


def every_page_is_accessible_and_fits(stage: Stage) -> None:
    assert faults(stage.tab, [stage.url + path for path in PAGES]) == []


def the_keyboard_goes_everywhere(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/")
    tab.keyboard.press("g")
    tab.keyboard.press("c")
    tab.wait_for_url("**/groups")
    tab.keyboard.press("/")
    tab.keyboard.type("bill")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/groups?q=bill")
    assert tab.locator("#groups tbody tr").count() == 1
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/groups/billing")
    tab.keyboard.press("?")
    tab.locator("#help[open]").wait_for()
    tab.keyboard.press("Escape")


def a_name_is_found_from_any_page(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/quorum")
    tab.keyboard.press("Control+k")
    field = tab.get_by_role("combobox", name="Go to")
    tab.keyboard.type("bill")
    tab.get_by_role("option", name="billing").wait_for()
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/groups/billing")
    stage.open("/quorum")
    tab.keyboard.press("/")  # this page has no list to search
    field.fill("topic")
    tab.locator("#jump [data-answer=topic]").wait_for()
    tab.keyboard.press("ArrowDown")
    chosen = tab.locator("#jump [aria-selected=true]")
    assert chosen.get_attribute("id") == field.get_attribute("aria-activedescendant")
    name = chosen.locator("b").inner_text()
    assert name != tab.locator("#jump [role=option] b").first.inner_text()
    assert axe_of(tab) == []
    tab.keyboard.press("Escape")
    assert not field.is_visible()
    tab.set_viewport_size(PHONE[1])
    tab.locator("[data-jump]").click()
    field.fill(STRANGE)
    tab.get_by_role("option").filter(has_text=STRANGE).click()
    tab.wait_for_url("**/groups/*img*")
    tab.set_viewport_size(DESK[1])
    assert tab.locator("main img").count() == 0


def a_page_keeps_itself_up_to_date(stage: Stage) -> None:
    stage.open("/groups/billing")
    end = stage.tab.locator("#partitions tbody tr td:nth-child(5)").first
    before = end.inner_text()
    wait_until(lambda: end.inner_text() != before, "the log end moves without a reload")


def names_of_strangers_are_only_text(stage: Stage) -> None:
    stage.open("/groups")
    stage.tab.get_by_role("link", name=STRANGE, exact=True).click()
    assert stage.tab.locator("h1").inner_text() == STRANGE
    assert stage.tab.locator("main img").count() == 0


def a_group_with_members_cannot_be_reset(stage: Stage) -> None:
    stage.open("/groups/billing")
    stage.sees("Offsets cannot be reset: the group has 1 member.")
    assert stage.tab.get_by_text("Reset offsets", exact=True).first.get_attribute("aria-disabled") == "true"
    stage.open("/groups/billing?tab=reset&to=earliest")
    assert stage.tab.locator("#apply").is_disabled()


def a_group_is_reset(stage: Stage) -> None:
    admin, tab = Admin(stage.cluster.bootstrap_servers), stage.tab
    assert sum(admin.committed("audit").values()) > 0
    stage.open("/groups/audit")
    tab.get_by_role("link", name="Reset offsets").first.click()
    tab.get_by_label("Continue at").select_option("earliest")
    tab.get_by_role("button", name="Preview").click()
    assert tab.locator("#preview tbody tr").count() == len(admin.committed("audit"))
    tab.locator("#apply").click()
    stage.sees("The offsets of")
    assert set(admin.committed("audit").values()) == {0}


def a_config_is_changed_and_set_back(stage: Stage) -> None:
    def value() -> str | None:
        configs = read_configs(stage.console.cluster, Kind.BROKER, "1")
        return next(each.value for each in configs if each.name == "log.retention.ms")

    tab = stage.tab
    for wrong in ("soon", "3600000"):
        stage.open("/brokers/1?tab=configs&q=log.retention.ms")
        tab.get_by_role("link", name="Edit log.retention.ms").click()
        tab.get_by_label("New value of log.retention.ms").fill(wrong)
        tab.get_by_role("button", name="Set", exact=True).click()
        stage.sees("was not changed" if wrong == "soon" else "log.retention.ms of broker 1 is 3600000 now")
    wait_until(lambda: value() == "3600000", "the broker uses the new value")
    stage.open("/brokers/1?tab=configs&q=log.retention.ms&edit=log.retention.ms")
    tab.get_by_role("button", name="Back to the default").click()
    stage.sees("was set back")
    wait_until(lambda: value() is None, "the broker uses its default")


def the_console_shows_what_a_dead_broker_means(stage: Stage) -> None:
    tab = stage.tab
    tab.locator("#verdict").get_by_role("link", name="Show").click()
    tab.wait_for_url("**/brokers/3")
    assert "Start broker 3 again" in tab.locator("#findings").inner_text()
    stage.sees("Log directories, as they were when it last answered")
    tab.get_by_role("link", name="Show the topics that lack replicas").click()
    tab.wait_for_url("**/topics?show=problems")
    tab.locator("tr", has_text="careful").get_by_text("refuses acks=all").wait_for()
    assert tab.locator("tr", has_text="orders").get_by_text("under-replicated").count() == 1
    tab.get_by_role("link", name="careful").click()
    assert "1 partition refuses acks=all" in tab.locator("#topic-state").inner_text()
    tab.get_by_role("link", name="Partitions").click()
    stage.sees("fewer replicas are in sync than min.insync.replicas requires")
    assert faults(tab, [stage.url + path for path in ("/brokers/3", "/topics/careful/partitions")]) == []
    stage.open("/")


def a_dead_broker_changes_the_verdict(stage: Stage) -> None:
    stage.open("/")
    stage.tab.locator("#verdict:not(.bad)").wait_for()
    stage.cluster.nodes[3].kill()
    tab = stage.tab
    tab.locator("#verdict.bad").wait_for()
    stage.sees("Start broker 3 again")
    assert "Broker 3 is down" in tab.locator("#verdict h1").inner_text()
    assert "down" in tab.locator("#broker-3").inner_text()
    stage.sees("Broker 3 is gone")
    the_console_shows_what_a_dead_broker_means(stage)
    stage.cluster.nodes[3].start()
    stage.sees("Broker 3 is back")
    tab.locator("#verdict:not(.bad)").wait_for()
