"""Transactions and alerts in a real browser: an operator finds what stands still, and sets it going again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer

from odradek.client.admin import Admin
from odradek.client.consumer import Consumer
from odradek.client.transaction_requests import OLD_MS
from odradek.console.frame import Console
from odradek.console.pages.alerts import known_alerts
from odradek.console.pages.transaction import known_transactions
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.testing import Embedded
from support.broker_process import free_port
from support.browser_tab import browser_tab, faults
from support.hanging import WITHOUT_VERIFICATION, hang
from support.waiting import wait_until

STRANGE = "<img src=x onerror=alert(1)>/&?#"
PAGES = (
    "/transactions",
    "/transactions?show=problems&longer=15m",
    "/transactions/id/payments?abort=1",
    "/transactions/at/stock/0/0?abort=1",
    "/alerts",
    "/alerts?show=not-evaluated",
    "/alerts/TargetDown",
    "/alerts/RecordsNotDelivered",
)


@dataclass
class Stage:
    broker: Embedded
    console: Console
    url: str
    tab: Any
    producers: list[Producer]
    problems: list[str]

    def open(self, path: str) -> None:
        self.tab.goto(self.url + path)

    def sees(self, text: str) -> None:
        self.tab.get_by_text(text).first.wait_for()

    def read(self, topic: str) -> list[bytes]:
        with Consumer(topic, group="readers", bootstrap=self.broker.bootstrap_servers, stop_at_end=True) as consumer:
            return [record.value for record in consumer]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    problems: list[str] = []
    dead_connect = f"http://127.0.0.1:{free_port()}"
    with (
        Embedded(config=WITHOUT_VERIFICATION) as broker,
        running(
            ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0, connect=(dead_connect,), alert_time_factor=0.01)
        ) as (console, server),
        browser_tab(problems) as tab,
    ):
        producers = _troubles(broker)
        wait_until(lambda: known_transactions(console.snapshot).hanging, "the console finds the hanging transaction")
        wait_until(lambda: known_alerts(console.snapshot).firing, "an alert fires")
        wait_until(lambda: known_transactions(console.snapshot).by_name.keys() >= {"payments", STRANGE}, "the ids")
        stage = Stage(broker, console, server.url, tab, producers, problems)
        yield stage


def _troubles(broker: Embedded) -> list[Producer]:
    """Two open transactions, and a hanging one."""
    admin = Admin(broker.bootstrap_servers)
    for topic in ("paid", "stock"):
        admin.create_topic(topic, 1)
    producers = []
    for name in ("payments", STRANGE):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name, "log_level": 0})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("paid", name.encode(), partition=0)
        assert producer.flush(60) == 0
        producers.append(producer)
    hang(broker.port, "stock", b"lost", timestamp=int(time.time() * 1000) - OLD_MS - 60_000)
    return producers


def test_an_operator_sets_it_going_again(stage: Stage) -> None:
    """One story, because all of it needs the same browser."""
    every_page_is_accessible_and_fits(stage)
    the_keyboard_opens_both_pages(stage)
    an_alert_says_what_to_do(stage)
    transactions_are_found_and_names_of_strangers_are_only_text(stage)
    the_overview_leads_to_the_hanging_transaction(stage)
    an_open_transaction_is_aborted(stage)
    assert stage.problems == []


def every_page_is_accessible_and_fits(stage: Stage) -> None:
    assert faults(stage.tab, [stage.url + path for path in PAGES]) == []


def the_keyboard_opens_both_pages(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/")
    for key, path in (("a", "alerts"), ("x", "transactions")):
        tab.keyboard.press("g")
        tab.keyboard.press(key)
        tab.wait_for_url(f"**/{path}")


def an_alert_says_what_to_do(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/alerts")
    first = tab.locator("#firing li").first
    assert "TargetDown" in first.inner_text()
    assert "What to do" in first.inner_text()
    tab.get_by_role("link", name="Not evaluated").click()
    tab.wait_for_url("**/alerts?show=not-evaluated")
    tab.locator("#alerts").get_by_role("link", name="StreamsDeadLetters").click()
    stage.sees("It is not evaluated here")


def transactions_are_found_and_names_of_strangers_are_only_text(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/transactions")
    tab.get_by_label("Open for").select_option("15m")
    tab.wait_for_url("**/transactions?longer=15m")
    assert tab.locator("#transactions tbody tr").count() == 1
    stage.open("/transactions?show=open")
    tab.get_by_role("link", name=STRANGE, exact=True).click()
    assert tab.locator("h1").inner_text() == STRANGE
    assert tab.locator("main img").count() == 0
    tab.get_by_role("link", name="payments").first.click()
    tab.wait_for_url("**/transactions/id/payments")


def the_overview_leads_to_the_hanging_transaction(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/")
    # Not the sentence at the top, which may be about the same transaction and leads here.
    tab.locator("a[href='/transactions/at/stock/0/0']").first.click()
    tab.wait_for_url("**/transactions/at/stock/0/0")
    tab.get_by_role("link", name="Abort…").click()
    tab.get_by_role("button", name="Write an abort marker").click()
    stage.sees("The transaction at offset 0 of stock-0 was aborted")
    wait_until(lambda: not known_transactions(stage.console.snapshot).hanging, "the console sees that it is gone")


def an_open_transaction_is_aborted(stage: Stage) -> None:
    tab = stage.tab
    stage.open("/transactions/id/payments")
    stage.sees("It holds back the last stable offset of 1 partition")
    tab.get_by_role("link", name="Abort…").click()
    stage.sees("Its producer is fenced")
    tab.get_by_role("link", name="Cancel").click()
    tab.get_by_role("link", name="Abort…").click()
    tab.get_by_role("button", name="Abort the transaction").click()
    stage.sees("The transaction of payments was aborted in 1 partition")
    stage.producers[1].commit_transaction(60)
    wait_until(lambda: stage.read("paid") == [STRANGE.encode()], "only the other transaction is read")
