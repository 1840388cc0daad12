"""Writes a source's records and offsets to topics: in one transaction, or the records first and then the offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from odradek.client.admin import Admin
from odradek.client.configuring import client_logger
from odradek.connect.conversion import Encoded
from odradek.connect.interface import RetriableError
from odradek.connect.topic_creation import TopicRule, rule_for
from odradek.spark.task_producer import DeliveryFailed, Failures, Record, TaskProducer

ANY_PARTITION = -1
NOW = 0
TRANSACTION_S = 30.0

# The same key goes to the same partition as with Java's producer.
COMMON: Mapping[str, str] = {"enable.idempotence": "true", "partitioner": "murmur2_random"}

Entries = Iterable[tuple[bytes, bytes | None]]


class Writer(Protocol):
    def write(self, records: Sequence[Encoded], offsets_topic: str, offsets: Entries) -> None:
        """Returns when records and offsets are durable. After an error, none of the offsets counts."""
        ...


def produced(record: Encoded) -> Record:
    """Arguments of `Producer.produce`, which takes them by position. The fifth is a callback, and so is the sixth."""
    partition = ANY_PARTITION if record.partition is None else record.partition
    timestamp = NOW if record.timestamp_ms is None else record.timestamp_ms
    report = _reporting(record.stored) if record.stored is not None else None
    return (record.topic, record.value, record.key, partition, report, None, timestamp, record.headers or None)


def _reporting(stored: Callable[[int], None]) -> Callable[[KafkaError | None, Message], None]:
    def report(error: KafkaError | None, message: Message) -> None:
        if error is None:
            stored(message.offset())

    return report


class AtLeastOnce:
    """The offsets are written after the records: a crash in between repeats these records, and loses none."""

    def __init__(self, config: Mapping[str, str | bool]) -> None:
        self._config = {**COMMON, **config}

    def write(self, records: Sequence[Encoded], offsets_topic: str, offsets: Entries) -> None:
        with TaskProducer(self._config) as producer:
            producer.send(map(produced, records))
            producer.finish()
            producer.send((offsets_topic, value, key) for key, value in offsets)
            producer.finish()


class Transactional:
    """Records and offsets in one transaction. Another producer with the same id fences this one."""

    def __init__(self, config: Mapping[str, str | bool], transactional_id: str) -> None:
        self._failures = Failures()
        # Reports of failures alone, unless the config asks for all: a report for each record doubles its cost.
        reports = {"on_delivery": self._failures, "delivery.report.only.error": True, "logger": client_logger()}
        self._producer = Producer({**COMMON, **reports, **config, "transactional.id": transactional_id})
        with _explained("starting transactions"):
            self._producer.init_transactions(TRANSACTION_S)

    def write(self, records: Sequence[Encoded], offsets_topic: str, offsets: Entries) -> None:
        with _explained("writing a transaction"):
            self._producer.begin_transaction()
            try:
                for record in map(produced, records):
                    self._send(record)
                for key, value in offsets:
                    self._send((offsets_topic, value, key))
                # The commit would flush, too, but without the reports of single records.
                self._producer.flush(TRANSACTION_S)
                self._producer.commit_transaction(TRANSACTION_S)
            except KafkaException as failed:
                if not failed.args[0].fatal():
                    # The commit did not happen. An open transaction would hold back readers until it times out.
                    self._producer.purge()
                    self._producer.abort_transaction(TRANSACTION_S)
                self._failures.raise_any()
                raise

    def _send(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(*record)
            except BufferError:
                self._producer.poll(0.005)
            else:
                return


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as failed:
        error = failed.args[0]
        told = f"{what}: {error.str()} ({error.name()})"
        raise RetriableError(told) if error.retriable() else DeliveryFailed(what, error) from failed


class MissingTopics:
    """Creates the topics that `topic.creation.*` covers, before the first record goes to each."""

    def __init__(self, admin: Admin, rules: tuple[TopicRule, ...]) -> None:
        self._admin = admin
        self._rules = rules
        self._known: set[str] = set()

    def ensure(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if topic in self._known:
                continue
            rule = rule_for(topic, self._rules)
            if rule is not None:
                self._admin.create_topic(
                    topic, rule.partitions, rule.config, replication_factor=rule.replication_factor
                )
            self._known.add(topic)
