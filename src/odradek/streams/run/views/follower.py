"""The thread that keeps a store up to date with its topic.

No consumer group: each follower reads all partitions, from the positions in its store. A topic that was deleted and
created again, or that lost records the store has not seen, makes it begin again: rows of the old one must not survive.
So does an absence for longer than compaction keeps deletions: the store would miss some. What the topic keeps for a
limited time, the store does not keep longer.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from odradek.base.limits import MIB
from odradek.client.admin import Admin, UnknownTopic
from odradek.client.records import ClientError
from odradek.streams.run.views.store import Store

ViewState = Literal["waiting for its topic", "loading", "following"]

POLL_S = 0.2
CHECK_S = 2.0  # how soon a topic that was replaced, or has grown, is noticed, and rows that are too old go
SEEN_S = 60.0  # how often a store that does not change notes that it is up to date
RETRY_S = 0.5
# While loading, large commits: each one rewrites every page that it touches.
COMMIT_ROWS_MAX = 100_000
COMMIT_BYTES_MAX = 64 * MIB
COMMIT_AGE_S = {"loading": 5.0, "following": 0.05}
CONSUME_MAX = 10_000

_READING: Mapping[str, str | int] = {
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",  # tells positions past the last record: control records and compacted ones
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 64 * 1024,
    "log_level": 0,
}
_log = logging.getLogger("odradek.streams.views")


class Misfit(Exception):
    """The topic is not the topic that the reader began with: compare store and topic again."""


class Follower:
    def __init__(
        self,
        store: Store,
        cluster: Admin,
        config: Mapping[str, str],
        topic: str,
        on_progress: Callable[[], None],
    ) -> None:
        self._store = store
        self._cluster = cluster
        # librdkafka wants a group id although nothing is committed and no group is joined
        self._config = {**_READING, "group.id": f"view-of-{topic}", **config}
        self._topic = topic
        self._on_progress = on_progress
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"odradek-view-{topic}", daemon=True)
        self._kept = Kept()
        self.state: ViewState = "waiting for its topic"
        self.problem: str | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                topic_id = self._cluster.topic_id(self._topic)
                if topic_id is None:
                    self._become("waiting for its topic")
                    self._stopping.wait(RETRY_S)
                else:
                    self._follow(topic_id)
            except Misfit as noticed:
                _log.info("view of %s starts over from its positions: %s", self._topic, noticed)
            except (ClientError, KafkaException, UnknownTopic, sqlite3.Error) as problem:
                self._report(problem)
                self._stopping.wait(RETRY_S)

    def _report(self, problem: Exception) -> None:
        if self.problem is None:
            _log.warning("view of %s cannot go on for now: %s", self._topic, problem)
        self.problem = str(problem)

    def _follow(self, topic_id: str) -> None:
        self._kept = Kept.of(self._cluster.topic_config(self._topic))
        positions = self._positions(topic_id)
        self._become("loading")
        consumer = Consumer(self._config)
        try:
            consumer.assign([TopicPartition(self._topic, index, offset) for index, offset in positions.items()])
            self._read(consumer, topic_id, _Pending(positions, aged=self._kept.rows_ms is not None))
        finally:
            consumer.close()

    def _positions(self, topic_id: str) -> dict[int, int]:
        """Where to go on; emptied first if what is stored does not belong to what the topic holds now."""
        starts, ends = self._cluster.start_offsets(self._topic), self._cluster.end_offsets(self._topic)
        stored = self._store.positions()
        why = self._why_begin_again(topic_id, stored, starts, ends)
        if why:
            if stored:
                _log.warning("view of %s is built again: %s", self._topic, why)
            self._store.begin_again(self._topic, topic_id, _now_ms())
            self._on_progress()
            stored = {}
        return {partition: stored.get(partition, start) for partition, start in starts.items()}

    def _why_begin_again(
        self, topic_id: str, stored: Mapping[int, int], starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> str | None:
        if self._store.source() != (self._topic, topic_id):
            return "the topic is another than the one that the store was filled from"
        if self._kept.deletions_ms is not None and _now_ms() - self._store.seen_ms() > self._kept.deletions_ms:
            return "it was not followed for longer than the topic keeps deletions (delete.retention.ms)"
        for partition, offset in stored.items():
            if partition not in ends:
                return f"partition {partition} is gone"
            if offset > ends[partition]:
                return f"partition {partition} ends at {ends[partition]}, the store has seen {offset}: it was cut"
            if offset < starts[partition]:
                return (
                    f"partition {partition} begins at {starts[partition]}, the store is at {offset}: changes were lost"
                )
        return None

    def _read(self, consumer: Consumer, topic_id: str, pending: _Pending) -> None:
        next_check = time.monotonic() + CHECK_S
        next_seen = 0.0
        while not self._stopping.is_set():
            # poll waits for one record, consume takes the records that are already fetched
            first = consumer.poll(POLL_S if pending.is_empty else 0)
            messages = [first, *consumer.consume(CONSUME_MAX, 0)] if first is not None else []
            pending.add(messages)
            if pending.is_due(self.state, idle=not messages):
                self._store.apply(pending.changes, pending.positions, pending.ages)
                pending.commit()
                if pending.at_end and self.state == "loading":
                    self._forget()
                self._become("following" if pending.at_end else self.state)
                self._on_progress()
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + CHECK_S
                self._check(topic_id, pending.positions)
                self._forget()
                if self.state == "following" and time.monotonic() >= next_seen:
                    next_seen = time.monotonic() + SEEN_S
                    self._store.saw_the_end(_now_ms())
        if not pending.is_empty:
            self._store.apply(pending.changes, pending.positions, pending.ages)
        if self.state == "following":
            self._store.saw_the_end(_now_ms())

    def _forget(self) -> None:
        if self._kept.rows_ms is not None and self._store.forget_before(_now_ms() - self._kept.rows_ms):
            self._on_progress()

    def _check(self, topic_id: str, positions: Mapping[int, int]) -> None:
        if self._cluster.topic_id(self._topic) != topic_id:
            raise Misfit("it was deleted or created again")
        if len(self._cluster.partitions(self._topic)) != len(positions):
            raise Misfit("its partitions have changed")
        self.problem = None

    def _become(self, state: ViewState) -> None:
        if state != self.state:
            self.state = state
            self._on_progress()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How long a topic keeps what; None: as long as it exists."""

    rows_ms: int | None = None
    deletions_ms: int | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Self:
        policy = config.get("cleanup.policy", "").split(",")
        retention_ms = int(config["retention.ms"]) if "delete" in policy else -1
        return cls(
            rows_ms=retention_ms if retention_ms >= 0 else None,
            deletions_ms=int(config["delete.retention.ms"]) if "compact" in policy else None,
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _Pending:
    """Changes read and not yet stored: only the newest of each key."""

    def __init__(self, positions: Mapping[int, int], *, aged: bool) -> None:
        self.positions = dict(positions)
        self._aged = aged
        self._at_end: set[int] = set()
        self._clear()

    def _clear(self) -> None:
        self.changes: dict[bytes, bytes | None] = {}
        self.ages: dict[bytes, int] = {}
        self._bytes = 0
        self._moved = False
        self._since = time.monotonic()

    @property
    def is_empty(self) -> bool:
        return not self._moved

    @property
    def at_end(self) -> bool:
        return self._at_end == self.positions.keys()

    def add(self, messages: list[Any]) -> None:
        if messages and not self._moved:
            self._since = time.monotonic()
        for message in messages:
            error = message.error()
            if error is None:
                key, value = message.key(), message.value()
                if key is not None:  # a record without a key is no row of a table
                    self.changes[key] = value
                    if self._aged:
                        self.ages[key] = message.timestamp()[1]
                    self._bytes += len(key) + len(value or b"")
                self.positions[message.partition()] = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 librdkafka's public name for it
                self._at_end.add(message.partition())
                self.positions[message.partition()] = message.offset()
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                raise Misfit(error.str())
            else:
                raise KafkaException(error)
            self._moved = True

    def is_due(self, state: ViewState, *, idle: bool) -> bool:
        if not self._moved:
            return False
        return (
            idle
            or len(self.changes) >= COMMIT_ROWS_MAX
            or self._bytes >= COMMIT_BYTES_MAX
            or time.monotonic() - self._since >= COMMIT_AGE_S[state]
        )

    def commit(self) -> None:
        self._clear()
