"""Shared by Consumer and AsyncConsumer: start offsets, commits, and decoding of records.

A record is done when the program requests the next one, or closes the consumer without an error. Only records that are
done are committed: if the program fails while it processes a record, the group reads that record again.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple

import confluent_kafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from odradek.client.admin import UnknownTopic
from odradek.client.configuring import Setting, client_config
from odradek.client.kinds import K, V
from odradek.client.records import ClientError, Record, record_of
from odradek.client.serdes import SerdeLike, serde_of
from odradek.client.statistics import INTERVAL, INTERVAL_MS, Statistics

Topic = str | re.Pattern[str]
# Where to begin: at the start, at the end, at a time, or a timedelta before now.
Start = str | datetime | timedelta

REQUEST_TIMEOUT_S = 15.0
NOBODYS_GROUP = "odradek-reader"  # librdkafka needs a name; no group is joined, and nothing is committed


class Progress(NamedTuple):
    """How far a group has read."""

    offsets: list[TopicPartition]
    group: object  # librdkafka's description of the group and this member


def require_topics(topics: Sequence[Topic]) -> None:
    if not topics:
        raise ValueError("no topics were given")
    for topic in topics:
        if isinstance(topic, str) and ":" in topic and not topic.startswith("^"):
            raise ValueError(f"{topic!r} is an address, not a topic: write bootstrap={topic!r}")


class Reading(Generic[K, V]):
    def __init__(
        self,
        topics: Sequence[Topic],
        bootstrap: str,
        *,
        group: str | None,
        start: Start,
        key: SerdeLike,
        value: SerdeLike,
        stop_at_end: bool,
        auto_commit: bool,
        config: dict[str, Setting],
    ) -> None:
        require_topics(topics)
        if isinstance(start, str) and start not in ("earliest", "latest"):
            raise ValueError(f"start={start!r}: use 'earliest', 'latest', a datetime, or a timedelta (before now)")
        self._bootstrap = bootstrap
        self._start = start
        self._key, self._value = serde_of(key), serde_of(value)
        self._stop_at_end = stop_at_end
        self._in_group = group is not None
        self._auto_commit = auto_commit and self._in_group
        self._ended: set[tuple[str, int]] = set()
        # Fetched but not returned: records that an AsyncConsumer prefetched, and records to return again.
        self.messages: deque[Message] = deque()
        self._last: Message | None = None
        ours: dict[str, Setting] = {
            "group.id": group or NOBODYS_GROUP,
            "enable.auto.commit": self._auto_commit,
            "enable.auto.offset.store": False,
            "enable.partition.eof": stop_at_end,
            "auto.offset.reset": start if isinstance(start, str) else "earliest",
            "partition.assignment.strategy": "cooperative-sticky",
            "check.crcs": True,
            INTERVAL: INTERVAL_MS,
        }
        self.statistics = Statistics()
        self.client = confluent_kafka.Consumer(
            {**client_config(bootstrap, ours, config), "stats_cb": self.statistics.reported}
        )
        self.is_closed = False
        try:
            self._begin(topics)
        except BaseException:
            self.client.close()
            raise

    # Where to begin

    def _begin(self, topics: Sequence[Topic]) -> None:
        if self._in_group:
            names = [f"^({topic.pattern})" if isinstance(topic, re.Pattern) else topic for topic in topics]
            self.client.subscribe(names, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        else:
            self.client.assign(self._placed(self._partitions(topics)))

    def _partitions(self, topics: Sequence[Topic]) -> list[TopicPartition]:
        known = self._answered("listing topics", lambda: self.client.list_topics(timeout=REQUEST_TIMEOUT_S)).topics
        names: dict[str, None] = {}
        for topic in topics:
            if isinstance(topic, re.Pattern):
                names |= dict.fromkeys(name for name in sorted(known) if topic.match(name))
            elif topic in known:
                names[topic] = None
            else:
                raise UnknownTopic(topic, self._bootstrap)
        return [TopicPartition(name, index) for name in names for index in sorted(known[name].partitions)]

    def _placed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        if isinstance(self._start, str):
            for partition in partitions:
                partition.offset = OFFSET_BEGINNING if self._start == "earliest" else OFFSET_END
            return partitions
        moment = self._start if isinstance(self._start, datetime) else datetime.now(UTC) - self._start
        for partition in partitions:
            partition.offset = max(int(moment.timestamp() * 1000), 0)
        return list(
            self._answered(
                "looking for the offsets of a time",
                lambda: self.client.offsets_for_times(partitions, timeout=REQUEST_TIMEOUT_S),
            )
        )

    def _assigned(self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        """Starts at the committed offsets. A start time applies only to partitions without one."""
        if not isinstance(self._start, str):
            committed = consumer.committed(partitions, timeout=REQUEST_TIMEOUT_S)
            new = [partition for partition in committed if partition.offset == OFFSET_INVALID]
            at = {(place.topic, place.partition): place.offset for place in self._placed(new)} if new else {}
            for partition in partitions:
                partition.offset = at.get((partition.topic, partition.partition), OFFSET_INVALID)
        consumer.incremental_assign(partitions)

    def _revoked(self, _: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        """Drops the records of revoked partitions. librdkafka commits their stored offsets itself."""
        gone = {(partition.topic, partition.partition) for partition in partitions}
        self._ended -= gone
        self.forget(gone)

    def forget(self, gone: set[tuple[str, int]]) -> None:
        """Drops fetched records of partitions that were revoked or that seek to another offset."""
        if self._last is not None and (self._last.topic(), self._last.partition()) in gone:
            self._last = None
        self.messages = deque(
            message for message in self.messages if (message.topic(), message.partition()) not in gone
        )

    # Messages

    def taken(self, message: Message | None) -> Record[K, V] | None:
        """The record of this message; None if the message is no record."""
        if message is None:
            return None
        error = message.error()
        if error is None:
            self._last = message
            self._ended.discard((message.topic() or "", message.partition() or 0))
            return record_of(message, self._key, self._value)
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 librdkafka names its own codes so
            self._ended.add((message.topic() or "", message.partition() or 0))
            return None
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            if (message.topic() or "").startswith("^"):
                return None  # a pattern waits for matching topics
            raise UnknownTopic(message.topic() or "", self._bootstrap)
        where = "" if message.partition() is None else f"[{message.partition()}]"
        raise ClientError(f"{message.topic() or 'reading'}{where} from {self._bootstrap}", error)

    @property
    def is_at_end(self) -> bool:
        return self._stop_at_end and bool(self._ended) and len(self._ended) >= len(self.client.assignment())

    def done_with_last(self) -> None:
        last, self._last = self._last, None
        if last is not None and self._auto_commit:
            try:
                self.client.store_offsets(last)
            except KafkaException as refused:
                # Another member has the partition now, and will read this record again.
                if refused.args[0].code() != KafkaError._STATE:  # noqa: SLF001
                    raise

    @contextmanager
    def finishing_last(self) -> Iterator[None]:
        """The last record is done when the block ends. If the block raises, the record is returned again."""
        try:
            yield
        except BaseException:
            last, self._last = self._last, None
            if last is not None:  # the partition was not revoked, and there was no seek
                self.messages.appendleft(last)
            raise
        self.done_with_last()

    # Commits and positions

    def commit(self, records: Iterable[Record[Any, Any]]) -> None:
        """Commits these records synchronously; without any, all records that were returned so far."""
        if not self._in_group:
            raise RuntimeError("a consumer without a group commits nothing: give it group='...'")
        offsets = self._offsets(records)
        if offsets:
            self._answered("committing", lambda: self.client.commit(offsets=offsets, asynchronous=False))

    def _offsets(self, records: Iterable[Record[Any, Any]]) -> list[TopicPartition]:
        ends: dict[tuple[str, int], int] = {}
        for record in records:
            place = record.topic, record.partition
            ends[place] = max(ends.get(place, 0), record.offset + 1)
        return [TopicPartition(*place, end) for place, end in ends.items()] or self._positions()

    def progress(self, records: Sequence[Record[Any, Any]]) -> Progress:
        """What a transaction commits for this group: these records; without any, all that were returned so far."""
        if not self._in_group or self._auto_commit:
            raise RuntimeError("its offsets are part of a transaction: give the consumer a group and auto_commit=False")
        group = self._answered("asking for the group", self.client.consumer_group_metadata)
        return Progress(self._offsets(records), group)

    def rewind(self) -> None:
        """Continues at the committed offsets, as after an aborted transaction."""
        places = self._answered(
            "asking for the committed offsets",
            lambda: self.client.committed(self.client.assignment(), timeout=REQUEST_TIMEOUT_S),
        )
        new = self._placed([place for place in places if place.offset < 0])
        for place in [*(place for place in places if place.offset >= 0), *new]:
            self.seek(place.topic, place.partition, place.offset)

    def _positions(self) -> list[TopicPartition]:
        """librdkafka's positions, moved back to records that will be returned again."""
        again = {(message.topic(), message.partition()): message.offset() for message in reversed(self.messages)}
        places = [place for place in self.client.position(self.client.assignment()) if place.offset >= 0]
        for place in places:
            place.offset = again.get((place.topic, place.partition), place.offset)
        return places

    def position(self) -> dict[tuple[str, int], int]:
        return {(place.topic, place.partition): place.offset for place in self._positions()}

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self._ended.discard((topic, partition))
        self._answered("moving to an offset", lambda: self.client.seek(TopicPartition(topic, partition, offset)))
        self.forget({(topic, partition)})

    def lag(self) -> dict[tuple[str, int], int]:
        """The number of records after this consumer's position in each partition."""
        lags = {}
        for place in self._positions():
            _, end = self._answered(
                "asking for the end of a log",
                lambda place=place: self.client.get_watermark_offsets(place, timeout=REQUEST_TIMEOUT_S),
            )
            lags[place.topic, place.partition] = max(end - place.offset, 0)
        return lags

    def close(self, *, clean: bool) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.statistics.end()
        if clean:
            self.done_with_last()
        self.client.close()

    def abandon(self) -> None:
        """Leaves the group without committing the last record: it may not be done, so the group reads it again."""
        self.close(clean=False)

    def _answered(self, what: str, call: Any) -> Any:  # noqa: ANN401, whatever librdkafka answers
        try:
            return call()
        except KafkaException as refused:
            raise ClientError(f"{what} on {self._bootstrap}", refused.args[0]) from None
