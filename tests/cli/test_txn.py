"""odradek txn: transactions of librdkafka, and a hanging one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from odradek.base.ids import TopicPartition
from odradek.cli import txn_requests
from odradek.cli.consent import Consent
from odradek.client import Consumer, transaction_requests
from odradek.protocol.messages.p03_metadata import MetadataRequest
from odradek.protocol.messages.p66_list_transactions import ListTransactionsRequest
from odradek.protocol.schema import Message
from odradek.testing import Embedded
from support.command_line import odradek_command, succeed
from support.hanging import WITHOUT_VERIFICATION, hang
from support.waiting import wait_until


@pytest.fixture(scope="module")
def broker() -> Iterator[Embedded]:
    with Embedded(config=WITHOUT_VERIFICATION) as running:
        yield running


@pytest.fixture(autouse=True)
def settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_requests, "COORDINATORS_SETTLE_S", 0.0)


def begun(broker: Embedded, name: str) -> Producer:
    """A producer with an open transaction in partition 0 of the topic of the same name."""
    succeed(broker, "topic", "create", name, "-p", "1")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"record")
    assert producer.flush(60) == 0
    return producer


def rows(broker: Embedded, *arguments: str, status: int = 0) -> list[dict]:
    result = odradek_command(broker, "txn", *arguments, "-o", "json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def committed(broker: Embedded, topic: str) -> list[bytes]:
    with Consumer(topic, bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
        return [record.value for record in consumer]


def test_ls_and_describe_follow_a_transaction(broker: Embedded) -> None:
    producer = begun(broker, "payments")
    [listed] = [row for row in rows(broker, "ls") if row["transactional_id"] == "payments"]
    assert (listed["state"], listed["coordinator"]) == ("Ongoing", 1)
    assert "payments" in [row["transactional_id"] for row in rows(broker, "ls", "--state", "Ongoing")]
    assert rows(broker, "ls", "--open-for", "1h") == []
    [described] = rows(broker, "describe", "payments")
    assert (described["state"], described["partitions"]) == ("Ongoing", ["payments:0"])
    assert (described["producer_id"], described["timeout_ms"]) == (listed["producer_id"], 60_000)
    assert described["started"].startswith("20")
    producer.commit_transaction(30)
    [described] = rows(broker, "describe", "payments")
    assert described["state"] in ("PrepareCommit", "CompleteCommit")


def test_abort_ends_the_transaction_and_fences_its_producer(broker: Embedded) -> None:
    producer = begun(broker, "refunds")
    assert succeed(broker, "txn", "abort", "refunds", "--yes").startswith("aborted the transaction of refunds")
    assert committed(broker, "refunds") == []
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(30)
    assert fenced.value.args[0].name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
    again = odradek_command(broker, "txn", "abort", "refunds", "--yes")
    assert (again.exit_code, "has no open transaction" in again.stderr) == (1, True), again.output


def test_a_hanging_transaction_is_found_and_aborted(broker: Embedded) -> None:
    open_one = begun(broker, "stock")
    producer_id = hang(broker.port, "stock", b"lost")
    succeed(broker, "produce", "stock", stdin="after\n")
    assert rows(broker, "find-hanging", "stock") == [], "it is younger than 15 minutes"
    [found] = rows(broker, "find-hanging", "stock", "--older-than", "0s", status=1)
    assert {key: found[key] for key in ("topic", "partition", "start_offset", "producer_id", "epoch")} == {
        "topic": "stock",
        "partition": 0,
        "start_offset": 1,
        "producer_id": producer_id,
        "epoch": 0,
    }
    open_one.commit_transaction(30)
    assert committed(broker, "stock") == [b"record"], "the hanging transaction hides what comes after it"
    shown = odradek_command(broker, "txn", "find-hanging", "--older-than", "0s")
    assert "abort it with: odradek txn abort --at stock:0:1" in shown.stderr
    succeed(broker, "txn", "abort", "--at", "stock:0:1", "--yes")
    assert committed(broker, "stock") == [b"record", b"after"]
    assert rows(broker, "find-hanging", "--older-than", "0s") == []


def test_a_transaction_that_its_coordinator_knows_is_not_aborted_by_place(broker: Embedded) -> None:
    producer = begun(broker, "known")
    assert rows(broker, "find-hanging", "known", "--older-than", "0s") == []
    refused = odradek_command(broker, "txn", "abort", "--at", "known:0:0", "--yes")
    assert (refused.exit_code, "odradek txn abort known" in refused.stderr) == (1, True), refused.output
    producer.commit_transaction(30)
    assert committed(broker, "known") == [b"record"]


def test_nothing_counts_as_hanging_while_its_coordinator_may_be_down(
    broker: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An abort marker would tear a transaction that the coordinator commits when it is back."""
    producer = begun(broker, "torn")
    ask = txn_requests.ask

    def without_coordinator(address: str, request: Message, version: int, answer: type[Message]) -> Message:
        told: Any = ask(address, request, version, answer)
        if isinstance(request, MetadataRequest):
            for topic in told.topics:
                for partition in topic.partitions if topic.name == "__transaction_state" else ():
                    partition.leader_id = -1
        elif isinstance(request, ListTransactionsRequest):
            told.transaction_states = []
        return told

    monkeypatch.setattr(txn_requests, "ask", without_coordinator)
    for command in (["find-hanging", "torn", "--older-than", "0s"], ["abort", "--at", "torn:0:0", "--yes"]):
        refused = odradek_command(broker, "txn", *command)
        assert "some transactions have no coordinator" in refused.stderr, refused.output
    producer.commit_transaction(30)
    assert committed(broker, "torn") == [b"record"]


def test_a_transaction_that_ended_while_the_user_was_asked_gets_no_marker(
    broker: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer may use the same epoch for its next transaction, which the marker would tear."""
    succeed(broker, "topic", "create", "late", "-p", "1")
    hang(broker.port, "late", b"lost")
    place = TopicPartition("late", 0)

    def ends_meanwhile(_: Consent, _question: str) -> bool:
        cluster = txn_requests.Cluster(broker.bootstrap_servers)
        [wrong], _complete = cluster.open_in([place])
        cluster.abort_in_partition(wrong)
        return True

    monkeypatch.setattr(Consent, "to", ends_meanwhile)
    refused = odradek_command(broker, "txn", "abort", "--at", "late:0:0")
    assert (refused.exit_code, "late:0:0 has changed" in refused.stderr) == (1, True), refused.output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["describe", "nosuch"], 3, 'transactional id "nosuch" does not exist'),
        (["abort", "nosuch"], 3, 'transactional id "nosuch" does not exist'),
        (["abort"], 2, "name either a TRANSACTIONAL_ID or --at"),
        (["abort", "--at", "orders"], 2, "is not TOPIC:PARTITION:OFFSET"),
        (["abort", "--at", "nosuch:0:0"], 3, 'topic "nosuch" does not exist'),
        (["abort", "--at", "orders:9:0"], 3, 'topic "orders" has no partition 9. It has 1 partition: 0'),
        (["abort", "--at", "orders:0:5"], 3, "no open transaction begins at offset 5 of orders:0"),
        (["find-hanging", "nosuch"], 3, 'topic "nosuch" does not exist'),
        (["find-hanging", "--older-than", "soon"], 2, "is not a duration such as"),
        (["ls", "--state", "Dead"], 2, "is not one of"),
    ],
)
def test_wrong_arguments_are_refused(broker: Embedded, arguments: list[str], code: int, said: str) -> None:
    odradek_command(broker, "topic", "create", "orders", "-p", "1")
    refused = odradek_command(broker, "txn", *arguments)
    assert (refused.exit_code, said in refused.stderr) == (code, True), refused.output


def test_abort_changes_nothing_without_confirmation(broker: Embedded) -> None:
    producer = begun(broker, "asked")
    refused = odradek_command(broker, "txn", "abort", "asked")
    assert refused.exit_code == 2
    assert "abort the transaction of asked in 1 partition, and fence its producer" in refused.stderr
    shown = odradek_command(broker, "txn", "abort", "asked", "--dry-run")
    assert (shown.exit_code, "nothing was changed" in shown.stderr) == (0, True)
    producer.commit_transaction(30)


def test_a_transaction_is_not_hanging_while_its_new_coordinator_does_not_know_of_its_election(
    broker: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = begun(broker, "elected")
    ask = txn_requests.ask
    listed: list[Message] = []

    def unaware_at_first(address: str, request: Message, version: int, answer: type[Message]) -> Message:
        told: Any = ask(address, request, version, answer)
        if isinstance(request, ListTransactionsRequest):
            listed.append(request)
            if len(listed) == 1:
                told.transaction_states = []
        return told

    monkeypatch.setattr(txn_requests, "ask", unaware_at_first)
    assert rows(broker, "find-hanging", "elected", "--older-than", "0s") == []
    assert len(listed) == 2
    producer.commit_transaction(30)


def test_a_transaction_that_ends_while_its_coordinator_is_asked_is_not_hanging(
    broker: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = begun(broker, "punctual")
    ask = txn_requests.ask

    def is_complete() -> bool:
        [described] = rows(broker, "describe", "punctual")
        return bool(described["state"] == "CompleteCommit")

    def ended_before(address: str, request: Message, version: int, answer: type[Message]) -> Message:
        if isinstance(request, ListTransactionsRequest):
            monkeypatch.setattr(txn_requests, "ask", ask)
            producer.commit_transaction(30)
            wait_until(is_complete, "the end of the transaction")
        told: Message = ask(address, request, version, answer)
        return told

    monkeypatch.setattr(txn_requests, "ask", ended_before)
    assert rows(broker, "find-hanging", "punctual", "--older-than", "0s") == []
