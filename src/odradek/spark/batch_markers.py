"""The topic of markers: which micro-batch each task of a sink has written last.

Key: the transactional id. Value: JSON with the number of the micro-batch, the id of the query, which Spark keeps in
the checkpoint, and a digest of what Spark planned for it. The topic is compacted, so it has about one record per task.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from odradek.client.listed_offsets import offset_in
from odradek.client.transactions_offered import NoTransactions, initialize
from odradek.spark.clients import QUIET, connection_of
from odradek.spark.task_producer import Record

PARTITION = 0
READ_WITHIN_S = 60.0
POLL_S = 0.5
RETRY_S = 0.1
# A marker is the last record of its transaction. One that is open for longer is of a task that died, or its
# coordinator is slow: a task that is fenced by mistake writes its records again in another transaction.
STUCK_AFTER_S = 30.0
# The coordinator aborts the transactions of other sinks after kafka.transaction.timeout.ms.
BLOCKED_WITHIN_S = 960.0
# Compaction leaves out the active segment, and keeps the markers of transactions for a while: both are to be small.
TOPIC: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "delete.retention.ms": "60000",
}
# librdkafka's admin client says _NOENT for a topic that does not exist, and for one without leaders.
NO_LEADER = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 (librdkafka's own codes have this form)
    KafkaError._NOENT,  # noqa: SLF001
    KafkaError.LEADER_NOT_AVAILABLE,
)
FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.POLICY_VIOLATION,
)
REFUSED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._AUTHENTICATION)  # noqa: SLF001


class Marker(msgspec.Struct, frozen=True):
    batch: int
    query_id: str
    plan: str | None = None  # identifies the offsets that the micro-batch read; None: unknown


class MarkersUnreadable(RuntimeError):
    pass


class MarkersRefused(NoTransactions):
    """This client may not use the topic of markers."""

    def __init__(self, topic: str, error: KafkaError) -> None:
        super().__init__(
            f"the topic of markers {topic!r} cannot be used: {error.str()} ({error.name()}). Grant the user of this "
            f"client Create (unless it exists), Describe, Read and Write on the topic {topic!r}, or name another "
            "topic with the option delivery.markers"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which markers a reader needs, and whose open transactions it may abort for that."""

    prefix: str  # of the transactional ids of the reader's own sink
    only: str | None = None  # None: the markers of all of them
    until: int | None = None  # a newer micro-batch is of another driver, which lives

    def has(self, transactional_id: str) -> bool:
        return transactional_id.startswith(self.prefix) if self.only is None else transactional_id == self.only

    def may_abort(self, transactional_id: str, marker: Marker) -> bool:
        is_own = transactional_id.startswith(self.prefix)
        if self.only is not None:
            is_own = transactional_id.rpartition(".")[0] == self.prefix[:-1] and transactional_id != self.only
        return is_own and (self.until is None or marker.batch <= self.until)


@dataclass(frozen=True, slots=True)
class MarkerTopic:
    name: str

    def record(self, transactional_id: str, marker: Marker) -> Record:
        return self.name, msgspec.json.encode(marker), transactional_id.encode(), PARTITION

    def last(self, config: Mapping[str, str], transactional_id: str, batch: int | None = None) -> Marker | None:
        """Call it when the transactional id has been initialized: from then on no older attempt writes a marker.

        `batch`: transactions of its sink with markers up to this micro-batch are aborted if they seem dead.
        """
        sink = transactional_id.rpartition(".")[0]
        wanted = Wanted(prefix=f"{sink}.", only=transactional_id, until=batch)
        return self._read(config, wanted).get(transactional_id)

    def all(self, config: Mapping[str, str], prefix: str) -> dict[str, Marker]:
        """The newest marker of each transactional id with this prefix. Their open transactions are aborted if they seem
        dead, so call it when no task of them runs.
        """
        return self._read(config, Wanted(prefix=prefix))

    def _read(self, config: Mapping[str, str], wanted: Wanted) -> dict[str, Marker]:
        connection = {**QUIET, **connection_of(config)}
        try:
            end = self._end(connection)
            if not end:
                return {}
            with closing(_Reading(connection, self.name)) as reading:
                return reading.newest(end, wanted)
        except KafkaException as refused:
            if refused.args[0].code() in FORBIDDEN:
                raise MarkersRefused(self.name, refused.args[0]) from None
            raise

    def _end(self, connection: Mapping[str, object]) -> int:
        """The high watermark. Creates the topic if it does not exist."""
        admin = AdminClient(dict(connection))
        at = TopicPartition(self.name, PARTITION)
        deadline = time.monotonic() + READ_WITHIN_S
        while True:
            asked = admin.list_offsets(
                {at: OffsetSpec.latest()},
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=READ_WITHIN_S,
            )
            try:
                return offset_in(asked[at].result())
            except KafkaException as unknown:
                if unknown.args[0].code() not in NO_LEADER or time.monotonic() > deadline:
                    raise
            if self._create(admin):
                return 0
            time.sleep(RETRY_S)

    def _create(self, admin: AdminClient) -> bool:
        """False: it exists, and has no leader yet."""
        wanted = NewTopic(self.name, num_partitions=1, replication_factor=-1, config=dict(TOPIC))
        try:
            admin.create_topics([wanted])[self.name].result()
        except KafkaException as refused:
            if refused.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True


class _Reading:
    """One read of the topic, from its beginning to an offset."""

    def __init__(self, connection: Mapping[str, object], topic: str) -> None:
        self._connection, self._topic = connection, topic
        self._consumer = self._reader("read_committed", OFFSET_BEGINNING)

    def close(self) -> None:
        self._consumer.close()

    def newest(self, end: int, wanted: Wanted) -> dict[str, Marker]:
        found: dict[str, Marker] = {}
        deadline = time.monotonic() + READ_WITHIN_S
        stuck: _Stuck | None = None  # at the end of the readable part: a transaction is open there
        while time.monotonic() < deadline:
            message = self._consumer.poll(POLL_S)
            error = None if message is None else message.error()
            if message is not None and error is None:
                stuck = None
                key = message.key().decode()
                if wanted.has(key):
                    found[key] = msgspec.json.decode(message.value(), type=Marker)
            elif message is not None and error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                if message.offset() >= end:
                    return found
                behind = self._markers_from(message.offset())
                if not any(wanted.has(key) for key in behind):
                    return found  # whatever becomes of the open transaction
                stuck = _Stuck(
                    time.monotonic(), [key for key, marker in behind.items() if wanted.may_abort(key, marker)]
                )
                deadline = time.monotonic() + BLOCKED_WITHIN_S
            elif error is not None and (error.fatal() or error.code() in REFUSED):
                raise KafkaException(error)
            if stuck is not None and time.monotonic() > stuck.since + STUCK_AFTER_S:
                self._abort(stuck.own)
                stuck = _Stuck(time.monotonic(), stuck.own)
        raise MarkersUnreadable(f"could not read {self._topic} to its end at {end}: a transaction is open in it")

    def _markers_from(self, offset: int) -> dict[str, Marker]:
        """The newest marker of each transactional id from this offset on, also in open and aborted transactions."""
        found: dict[str, Marker] = {}
        reader = self._reader("read_uncommitted", offset)
        try:
            while (message := reader.poll(READ_WITHIN_S)) is not None and message.error() is None:
                found[message.key().decode()] = msgspec.json.decode(message.value(), type=Marker)
        finally:
            reader.close()
        return found

    def _abort(self, transactional_ids: Iterable[str]) -> None:
        """A task that is fenced although it lives finds in the markers whether its transaction was committed."""
        for each in sorted(transactional_ids):
            producer = Producer({**self._connection, "transactional.id": each})
            # The coordinator aborts it later if it cannot be aborted here.
            with contextlib.suppress(KafkaException, NoTransactions):
                initialize(producer, {name: str(value) for name, value in self._connection.items()}, READ_WITHIN_S)

    def _reader(self, isolation: str, offset: int) -> Consumer:
        settings = {
            "group.id": "odradek-markers",  # required by librdkafka, and never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",  # compaction may have removed the first records
            "isolation.level": isolation,
            "fetch.wait.max.ms": 20,
        }
        consumer = Consumer({**self._connection, **settings})
        consumer.assign([TopicPartition(self._topic, PARTITION, offset)])
        return consumer


@dataclass(frozen=True, slots=True)
class _Stuck:
    since: float
    own: list[str]  # transactional ids of the reader's sink, one of which may have the open transaction
