"""What both flavours of consumers share: where to begin, what counts as done, and records out of messages.

A record counts as done when the next one is asked for, or when the consumer is closed without an error. What is done is
committed: a group that fails in the middle of a record gets that record again.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Generic

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

Topic = str | re.Pattern[str]
# Where to begin: at either end, at a moment, or so long ago.
Start = str | datetime | timedelta

REQUEST_TIMEOUT_S = 15.0
NOBODYS_GROUP = "odradek-reader"  # librdkafka wants a name; nothing joins or commits under it


def require_topics(topics: Sequence[Topic]) -> None:
    if not topics:
        raise ValueError("no topics were given")
    for topic in topics:
        if isinstance(topic, str) and ":" in topic and not topic.startswith("^"):
            raise ValueError(f"{topic!r} is an address, and no topic: write bootstrap={topic!r}")


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
            raise ValueError(f"start={start!r}: use 'earliest', 'latest', a datetime, or a timedelta (so long ago)")
        self._bootstrap = bootstrap
        self._start = start
        self._key, self._value = serde_of(key), serde_of(value)
        self._stop_at_end = stop_at_end
        self._in_group = group is not None
        self._auto_commit = auto_commit and self._in_group
        self._ended: set[tuple[str, int]] = set()
        # Fetched and not taken: what an AsyncConsumer has read ahead, and what is to be taken again.
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
        }
        self.client = confluent_kafka.Consumer(client_config(bootstrap, ours, config))
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
        """Where the group was; a time to begin at counts only where it never was."""
        if not isinstance(self._start, str):
            committed = consumer.committed(partitions, timeout=REQUEST_TIMEOUT_S)
            new = [partition for partition in committed if partition.offset == OFFSET_INVALID]
            at = {(place.topic, place.partition): place.offset for place in self._placed(new)} if new else {}
            for partition in partitions:
                partition.offset = at.get((partition.topic, partition.partition), OFFSET_INVALID)
        consumer.incremental_assign(partitions)

    def _revoked(self, _: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        """librdkafka commits what was stored; what is theirs is no longer ours to finish."""
        gone = {(partition.topic, partition.partition) for partition in partitions}
        self._ended -= gone
        self.forget(gone)

    def forget(self, gone: set[tuple[str, int]]) -> None:
        """Partitions that another member has now, or that are read from elsewhere."""
        if self._last is not None and (self._last.topic(), self._last.partition()) in gone:
            self._last = None
        self.messages = deque(
            message for message in self.messages if (message.topic(), message.partition()) not in gone
        )

    # One message after the other

    def taken(self, message: Message | None) -> Record[K, V] | None:
        """The record of this message, or None when it tells something else."""
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
                return None  # a pattern waits for what matches
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
                # Somebody else has the partition now, and will read this record again.
                if refused.args[0].code() != KafkaError._STATE:  # noqa: SLF001
                    raise

    @contextmanager
    def finishing_last(self) -> Iterator[None]:
        """The last record is done when the block ends. Where it raises, or is cancelled, the record is taken again."""
        try:
            yield
        except BaseException:
            last, self._last = self._last, None
            if last is not None:  # the partition is still ours, and no seek has left the record
                self.messages.appendleft(last)
            raise
        self.done_with_last()

    # For whoever moves about

    def commit(self, records: Iterable[Record[Any, Any]]) -> None:
        """Synchronously: the group goes on after these records; without any, after all that was taken so far."""
        if not self._in_group:
            raise RuntimeError("a consumer without a group commits nothing: give it group='...'")
        ends: dict[tuple[str, int], int] = {}
        for record in records:
            place = record.topic, record.partition
            ends[place] = max(ends.get(place, 0), record.offset + 1)
        offsets = [TopicPartition(*place, end) for place, end in ends.items()] or self._positions()
        if offsets:
            self._answered("committing", lambda: self.client.commit(offsets=offsets, asynchronous=False))

    def _positions(self) -> list[TopicPartition]:
        """Those of librdkafka, which does not know what is to be taken again."""
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
        """How many records each partition has after this consumer's position."""
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
        if clean:
            self.done_with_last()
        self.client.close()

    def abandon(self) -> None:
        """Leaves the group. Nobody knows whether the last record was done: it comes again."""
        self.close(clean=False)

    def _answered(self, what: str, call: Any) -> Any:  # noqa: ANN401, whatever librdkafka answers
        try:
            return call()
        except KafkaException as refused:
            raise ClientError(f"{what} on {self._bootstrap}", refused.args[0]) from None
