"""Transactions in the console: the list, one transaction, who waits for it, and aborting it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from confluent_kafka import KafkaException, Producer

from console.snapshots import healthy, with_group
from odradek.base.ids import TopicPartition
from odradek.client.admin import Admin
from odradek.client.consumer import Consumer
from odradek.client.transaction_requests import OLD_MS, Open
from odradek.console.collecting.transactions import (
    LATE_MS,
    STATE_TOPIC,
    Hanging,
    Held,
    KnownTransactions,
    Rule,
    Transaction,
    TransactionReader,
    Waiting,
    coordinators_answer,
)
from odradek.console.pages.transaction import known_transactions
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.console.transaction_findings import events, findings
from odradek.console.verdict import verdict
from odradek.monitor.lag.evaluation import Status
from odradek.testing import Embedded
from support.consoles import HTML, Running
from support.hanging import WITHOUT_VERIFICATION, hang
from support.waiting import wait_until

STRANGE = "<img src=x onerror=alert(1)>/&?#"
NOW_MS = 10_000_000_000
ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[Embedded]:
    with Embedded(config={**WITHOUT_VERIFICATION, "group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture(scope="module")
def console(broker: Embedded) -> Iterator[Running]:
    with running(ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0)) as (console, server):
        yield Running(console, server.url)


def begun(broker: Embedded, name: str, topic: str) -> Producer:
    """A producer with an open transaction in partition 0 of the topic."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"record", partition=0)
    assert producer.flush(60) == 0
    return producer


def created(console: Running, topic: str) -> str:
    Admin(console.console.settings.bootstrap).create_topic(topic, 1)
    wait_until(lambda: topic in console.console.snapshot.topics, "the console knows the topic")
    return topic


def seen(console: Running, name: str, state: str) -> Transaction:
    def found() -> Transaction | None:
        each = known_transactions(console.console.snapshot).by_name.get(name)
        return each if each is not None and each.state == state else None

    result = wait_until(found, f"the console sees {name} in {state}")
    assert result is not None
    return result


def read(broker: Embedded, topic: str, group: str) -> list[bytes]:
    with Consumer(topic, group=group, bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
        return [record.value for record in consumer]


# --- over HTTP


def test_the_list_shows_states_and_is_filtered_by_address(broker: Embedded, console: Running) -> None:
    topic = created(console, "listed")
    producer = begun(broker, STRANGE, topic)
    begun(broker, "ended", topic).commit_transaction(60)
    open_one = seen(console, STRANGE, "Ongoing")
    assert (open_one.epoch, open_one.places) == (0, (TopicPartition("listed", 0),))
    wait_until(lambda: not known_transactions(console.console.snapshot).by_name["ended"].is_open, "it has ended")
    page = console.page("/transactions")
    assert "&lt;img src=x" in page
    assert "<img src=x" not in page
    assert 'href="/transactions"' in console.page("/"), "the page is in the navigation"
    shown = {show: console.page(f"/transactions?show={show}") for show in ("open", "idle", "problems")}
    assert ["ended</a>" in shown[show] for show in ("open", "idle", "problems")] == [False, True, False]
    assert ["&lt;img" in shown[show] for show in ("open", "idle", "problems")] == [True, False, False]
    assert "No transaction matches" in console.page("/transactions?longer=1h")
    assert "ended</a>" not in console.page(f"/transactions?q={open_one.producer_id}+ongoing")
    producer.abort_transaction(60)


def test_a_transaction_shows_what_it_holds_back_and_is_aborted(broker: Embedded, console: Running) -> None:
    topic = created(console, "paid")
    begun(broker, "earlier", topic).commit_transaction(60)
    seen(console, "earlier", "CompleteCommit")
    producer = begun(broker, "payments", topic)
    with Plain(broker) as plain:
        plain.produce(topic, b"behind it")
    wait_until(lambda: console.console.watched.ends(topic), "the console knows the topic, and takes its commits")
    assert read(broker, topic, "readers") == [b"record"]
    seen(console, "payments", "Ongoing")
    wait_until(lambda: "readers" in console.console.snapshot.groups, "the console lists the group")
    path = "/transactions/id/payments"
    wait_until(lambda: ">readers</a>" in console.page(path), lambda: console.page(path))
    page = console.page(path)
    assert "It holds back the last stable offset of 1 partition" in page
    assert "this transaction" in page
    asked = console.page(f"{path}?abort=1")
    assert "Its producer is fenced" in asked
    assert "This group can read on" in asked
    identity = re.search(r'name="transaction" value="([^"]+)"', asked)
    assert identity is not None
    refused = console.post(path, f"{path}?abort=1", transaction="1/2/3")
    assert "another one is open" in refused.text
    done = console.post(path, f"{path}?abort=1", transaction=identity[1])
    assert "was aborted in 1 partition" in done.text
    with pytest.raises(KafkaException):
        producer.commit_transaction(60)
    assert read(broker, topic, "readers") == [b"behind it"]
    assert "has no open transaction" in console.post(path, transaction=identity[1]).text


def test_a_hanging_transaction_is_a_finding_and_is_aborted(broker: Embedded, console: Running) -> None:
    begun(broker, "earlier", created(console, "other")).commit_transaction(60)
    topic = created(console, "stock")
    young = hang(broker.port, topic, b"young", timestamp=int(time.time() * 1000))
    at = f"/transactions/at/{topic}/0/0"
    page = console.page(at)
    assert "its producer may still be at work" in page
    assert "Abort…" not in page
    assert "may still be at work" in console.post(at, producer=f"{young}/0").text
    lost = created(console, "lost")
    producer_id = hang(broker.port, lost, b"lost", timestamp=int(time.time() * 1000) - OLD_MS - 60_000)
    verdict = console.console.verdict
    wait_until(lambda: any("lost-0" in each.what for each in verdict().findings), verdict)
    [found] = [each for each in verdict().findings if "hanging" in each.what]
    assert found.what == "A hanging transaction stops the readers of lost-0"
    assert (found.path, found.command) == ("/transactions/at/lost/0/0", "odradek txn abort --at lost:0:0")
    listed = console.page("/transactions?show=problems")
    assert "lost-0 from offset 0" in listed
    assert Rule.HANGING.value in listed
    assert "HANGING" in console.page(found.path)
    assert "Look again" in console.post(found.path, f"{found.path}?abort=1", producer="0/7").text
    done = console.post(found.path, f"{found.path}?abort=1", producer=f"{producer_id}/0")
    assert "was aborted" in done.text
    wait_until(lambda: not any("hanging" in each.what for each in verdict().findings), verdict)
    told = [each.text for each in console.console.snapshot.events]
    assert "A hanging transaction was found in lost-0" in told
    assert "The hanging transaction in lost-0 has ended" in told
    assert "No open transaction begins at this offset" in console.page(found.path)


def test_a_transaction_that_its_coordinator_knows_is_not_aborted_by_its_offset(
    broker: Embedded, console: Running
) -> None:
    topic = created(console, "known")
    producer = begun(broker, "owner", topic)
    page = console.page("/transactions/at/known/0/0")
    assert "its coordinator still knows it" in page
    assert 'href="/transactions/id/owner"' in page
    refused = console.post("/transactions/at/known/0/0", producer="1/0")
    assert "its coordinator still knows it" in refused.text
    producer.commit_transaction(60)
    assert read(broker, topic, "") == [b"record"]


def test_a_read_only_console_and_a_form_without_the_token_abort_nothing(broker: Embedded, console: Running) -> None:
    producer = begun(broker, "guarded", created(console, "guarded"))
    found = seen(console, "guarded", "Ongoing")
    fields = {"transaction": f"{found.producer_id}/{found.epoch}/{found.started_ms}"}
    without = httpx.post(f"{console.url}/transactions/id/guarded", data=fields, headers=HTML)
    assert without.status_code == 403
    with running(ConsoleSettings(bootstrap=broker.bootstrap_servers, port=0, read_only=True)) as (other, server):
        other.collector.wait_for_first(60)
        guarded = Running(other, server.url)
        page = wait_until(lambda: guarded.page("/transactions/id/guarded?abort=1"), "the page")
        assert re.search(r"<button class=\"danger\" disabled", page)
        assert guarded.post("/transactions/id/guarded", **fields).status_code == 403
        assert guarded.post("/transactions/at/guarded/0/0", producer="1/0").status_code == 403
    producer.commit_transaction(60)


def test_unknown_ids_and_partitions_are_not_found(console: Running) -> None:
    for path in ("/transactions/id/nosuch", "/transactions/at/nosuch/0/0", "/transactions/at/known/99/0"):
        assert console.get(path, **HTML).status_code == 404


def test_a_cluster_without_transactions_has_no_such_page(console: Running) -> None:
    reader = TransactionReader(console.console.cluster, console.console.watched.evaluate)
    assert reader.read(healthy()) is None


class Plain:
    """A producer without transactions; flushes at the end of a `with` block."""

    def __init__(self, broker: Embedded) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})

    def __enter__(self) -> Producer:
        return self._producer

    def __exit__(self, *_: object) -> None:
        assert self._producer.flush(60) == 0


# --- conclusions


def opened(*, age_ms: int = OLD_MS, start: int = 17, producer_id: int = 4) -> Open:
    return Open(
        partition=ORDERS,
        start_offset=start,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        last_ms=NOW_MS - age_ms,
    )


def ongoing(*, open_ms: int = 1_000, state: str = "Ongoing", since_ms: int = NOW_MS, timeout_ms: int = 60_000):
    return Transaction(
        name="payments/1",
        state=state,
        producer_id=4,
        coordinator=1,
        since_ms=since_ms,
        epoch=0,
        timeout_ms=timeout_ms,
        started_ms=NOW_MS - open_ms,
        places=(ORDERS,),
    )


def held(*found: Open) -> Held:
    return Held(partition=ORDERS, stable=17, end=1_017, open=found)


def waits(group: str = "billing", *, is_explained: bool = True) -> Waiting:
    return Waiting(group=group, places=frozenset({ORDERS}), is_explained=is_explained, is_unwell=True)


def test_rules_need_more_than_the_timeout_or_a_minute_of_ending() -> None:
    assert ongoing(open_ms=60_000 + LATE_MS).rule(NOW_MS) is None
    assert ongoing(open_ms=60_001 + LATE_MS).rule(NOW_MS) is Rule.OVERDUE
    assert ongoing(state="PrepareCommit", open_ms=500_000).rule(NOW_MS) is None
    assert ongoing(state="PrepareCommit", since_ms=NOW_MS - LATE_MS - 1).rule(NOW_MS) is Rule.STUCK
    assert ongoing(state="CompleteCommit", open_ms=500_000).rule(NOW_MS) is None


def test_a_hanging_transaction_explains_the_groups_that_wait_only_for_it() -> None:
    hanging = Hanging(open=opened(), owner="", held=held(opened()))
    known = KnownTransactions(
        at_ms=NOW_MS,
        hanging=(hanging,),
        waiting=(waits(), waits("audit", is_explained=False)),
        held={ORDERS: hanging.held},
    )
    [finding] = findings(known)
    assert finding.why == (
        "It began at offset 17, its last record is 15 min old, and no coordinator will end it. 1,000 records behind it "
        "are not visible to consumers that read committed records. Groups billing, audit wait for it"
    )
    snapshot = replace(with_group(healthy(), "billing", Status.STOP), findings=[finding])
    told = [each.what for each in verdict(with_group(snapshot, "audit", Status.STOP)).findings]
    assert told == [finding.what, "Group audit has stopped committing"]


def test_several_hanging_transactions_are_one_finding() -> None:
    both = tuple(Hanging(open=each, owner="", held=held(each)) for each in (opened(), opened(start=30)))
    [finding] = findings(KnownTransactions(at_ms=NOW_MS, hanging=both))
    assert finding.what == "2 hanging transactions stop the readers of orders-0, orders-0"
    assert finding.path == "/transactions?show=problems"


def test_a_group_that_waits_for_an_open_transaction_has_not_failed() -> None:
    each = ongoing(open_ms=30_000)
    known = KnownTransactions(
        at_ms=NOW_MS, by_name={each.name: each}, waiting=(waits(),), held={ORDERS: held(opened(age_ms=0))}
    )
    [finding] = findings(known)
    assert finding.what == "Group billing waits for the open transaction of payments/1"
    assert finding.path == "/transactions/id/payments%2F1"
    assert "at the latest in 30 s" in finding.step
    assert finding.explains == {"billing"}


def test_a_transaction_that_does_not_end_says_why() -> None:
    stuck = ongoing(state="PrepareCommit", since_ms=NOW_MS - LATE_MS - 1)
    [finding] = findings(KnownTransactions(at_ms=NOW_MS, by_name={stuck.name: stuck}))
    assert finding.what == "The transaction of payments/1 does not end"
    assert "markers cannot be written" in finding.why
    [other] = findings(KnownTransactions(at_ms=NOW_MS, by_name={"a": ongoing(open_ms=500_000)}))
    assert "its coordinator has not aborted it" in other.why


def test_a_hanging_transaction_is_an_event_when_it_is_found_and_when_it_ends() -> None:
    none = KnownTransactions(at_ms=NOW_MS)
    one = replace(none, hanging=(Hanging(open=opened(), owner="", held=held(opened())),))
    assert [each.level for each in events(none, one)] == ["warn"]
    assert [each.level for each in events(one, none)] == ["good"]
    assert list(events(one, one)) == []


def test_nothing_hangs_while_a_coordinator_is_missing() -> None:
    """Its transactions would look like hanging ones."""
    topic = replace(healthy().topics["orders"], name=STATE_TOPIC)
    well = replace(healthy(), topics={STATE_TOPIC: topic})
    assert coordinators_answer(well)
    lost = tuple(each._replace(leader=-1) for each in topic.partitions[:1])
    assert not coordinators_answer(replace(well, topics={STATE_TOPIC: replace(topic, partitions=lost)}))
