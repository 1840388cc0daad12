"""What the monitor asks a cluster, through librdkafka: its topics, log ends, and the records of `__consumer_offsets`.

Reads uncommitted data, as Burrow does: a hanging transaction must not hide the commits of other groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from odradek.base.limits import KIB, MIB
from odradek.client.configuring import client_logger

OFFSETS_TOPIC = "__consumer_offsets"
NOBODYS_GROUP = "odradek-monitor"  # librdkafka needs a name; no group is joined, and nothing is committed
# librdkafka looks up each answered partition in the list of all requested ones: many at once take quadratic time.
PARTITIONS_PER_REQUEST = 200
REQUEST_TIMEOUT_S = 5.0
RECORDS_AT_ONCE = 5_000
FETCH_WAIT_MS = 500
FETCH_BYTES_MIN, FETCH_BYTES_MAX = 128 * KIB, 1 * MIB
LATEST_MS = -1
OFFSET_MAX = 2**63 - 1

Place = tuple[str, int]  # topic, partition
Records = tuple[list[bytes | None], list[bytes | None]]  # keys, values


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    cluster_id: str
    partitions: Mapping[str, int]  # their number, by topic
    leaders: Mapping[Place, int]  # without partitions that have no leader


class ClusterClient:
    """Reading and asking have a connection each: a broker answers in order, and a fetch waits for new records."""

    def __init__(self, bootstrap: str, config: Mapping[str, str], *, fetch_wait_ms: int = FETCH_WAIT_MS) -> None:
        ours: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": NOBODYS_GROUP,
            "client.id": NOBODYS_GROUP,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
            # Memory is bounded by these. A fetch returns as soon as it has this much, or after the wait.
            "queued.min.messages": 2 * RECORDS_AT_ONCE,
            "queued.max.messages.kbytes": 4 * FETCH_BYTES_MAX >> 10,
            "fetch.queue.backoff.ms": 50,
            "fetch.max.bytes": FETCH_BYTES_MAX,
            "fetch.message.max.bytes": FETCH_BYTES_MAX,
            "fetch.min.bytes": FETCH_BYTES_MIN,
            "fetch.wait.max.ms": fetch_wait_ms,
            "logger": client_logger(),
            **config,
        }
        self._reading = Consumer(ours)
        self._asking = Consumer(ours)
        # The last offset that was returned, by partition of `__consumer_offsets`, and the last end that was reported.
        self._read: dict[int, int] = {}
        self._reported_ends: dict[int, int] = {}
        # Its partitions of which the records before `_past_ends` were not all returned yet.
        self.unread: set[int] = set()
        self._past_ends: Mapping[int, int] = {}

    def layout(self) -> Layout:
        """Raises KafkaException."""
        known = self._asking.list_topics(timeout=REQUEST_TIMEOUT_S)
        return Layout(
            cluster_id=known.cluster_id,
            partitions={name: len(topic.partitions) for name, topic in known.topics.items()},
            leaders={
                (name, index): partition.leader
                for name, topic in known.topics.items()
                for index, partition in topic.partitions.items()
                if partition.leader >= 0
            },
        )

    def log_ends(self, leaders: Mapping[Place, int]) -> dict[Place, int]:
        """A leader that does not answer costs one timeout; its partitions are missing."""
        latest = dict.fromkeys(leaders, LATEST_MS)
        return {place: end for place, end in self._listed(leaders, latest) if end >= 0}

    def log_ends_at(self, leaders: Mapping[Place, int], at_ms: Mapping[Place, int]) -> dict[Place, int | None]:
        """The log ends at times in the past, by the timestamps of records. None: there is no later record."""
        return {place: offset if offset >= 0 else None for place, offset in self._listed(leaders, at_ms)}

    def _listed(self, leaders: Mapping[Place, int], at_ms: Mapping[Place, int]) -> Iterator[tuple[Place, int]]:
        for places in _by_leader(leaders):
            for first in range(0, len(places), PARTITIONS_PER_REQUEST):
                some = places[first : first + PARTITIONS_PER_REQUEST]
                asked = [TopicPartition(*place, at_ms[place]) for place in some]
                try:
                    answers = self._asking.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_S)
                except KafkaException:
                    break
                yield from (((tp.topic, tp.partition), tp.offset) for tp in answers if tp.error is None)

    def read_commits(self, starts: Mapping[int, int | None], ends: Mapping[int, int]) -> None:
        """Reads these partitions of `__consumer_offsets`, each from an offset or, with None, from the beginning.

        `ends`: their log ends now. librdkafka reports the end of a partition only after an empty fetch, and there is
        none while groups commit all the time.
        """
        self.unread = set(starts)
        self._past_ends = ends
        self._read.clear()
        self._reported_ends.clear()
        self._reading.assign(
            [
                TopicPartition(OFFSETS_TOPIC, index, OFFSET_BEGINNING if start is None else start)
                for index, start in starts.items()
            ]
        )

    def read_on(self, ends: Mapping[int, int]) -> None:
        """Partitions with records before `ends`, their log ends now, that were not returned yet become unread."""
        self._past_ends = ends
        assigned = {place.partition for place in self._reading.assignment()}
        self.unread = {partition for partition in assigned if self._position(partition) < ends.get(partition, 0)}

    def _position(self, partition: int) -> int:
        """Behind the last record there may be markers of transactions, which are not returned."""
        return max(self._read.get(partition, -1) + 1, self._reported_ends.get(partition, 0))

    def commits(self, within_s: float) -> list[Records]:
        """The records that arrive within this time, each once, in runs of one partition."""
        messages = self._good(self._reading.consume(RECORDS_AT_ONCE, within_s))
        runs: list[Records] = []
        first = 0
        for partition, same in groupby(map(Message.partition, messages)):
            run = messages[first : first + len(list(same))]
            first += len(run)
            if run[0].offset() <= self._read.get(partition, -1):
                # After a reset to the beginning, librdkafka returns old records again.
                run = [message for message in run if message.offset() > self._read[partition]]
            if run:
                self._read[partition] = run[-1].offset()
                if run[-1].offset() + 1 >= self._past_ends.get(partition, OFFSET_MAX):
                    self.unread.discard(partition)
                runs.append((list(map(Message.key, run)), list(map(Message.value, run))))
        return runs

    def _good(self, messages: list[Message]) -> list[Message]:
        """Without errors and ends of partitions. librdkafka retries after errors by itself."""
        errors = [message.error() for message in messages]
        if not any(errors):
            return messages
        for message, error in zip(messages, errors, strict=True):
            if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 its own name for it
                self._end_reported(message.partition(), message.offset())
        return [message for message, error in zip(messages, errors, strict=True) if error is None]

    def _end_reported(self, partition: int, end: int) -> None:
        is_first = partition not in self._reported_ends
        self._reported_ends[partition] = end
        # The first end counts even if it is before `_past_ends`: then the log lost its last records with its leader.
        # A later one may have been reported before the log got to `_past_ends`.
        if is_first or end >= self._past_ends.get(partition, OFFSET_MAX):
            self.unread.discard(partition)

    def close(self) -> None:
        self._reading.close()
        self._asking.close()


def _by_leader(leaders: Mapping[Place, int]) -> list[list[Place]]:
    led: dict[int, list[Place]] = {}
    for place, leader in leaders.items():
        led.setdefault(leader, []).append(place)
    return [led[leader] for leader in sorted(led)]
