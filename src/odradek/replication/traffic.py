"""Counts for metrics what is appended and read, by topic and in total: some additions for each batch, none per record.

A broker without metrics has no traffic counters.
"""

from __future__ import annotations

from functools import partial

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import ByteSource
from odradek.log.appended import RecordsRefused
from odradek.monitor.catalogue import topics as catalogue
from odradek.monitor.registry import Registry
from odradek.protocol.batch import MAGIC, MAGIC_POSITION

TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
# The client is outdated or sent a wrong batch, so the broker did not fail. KAFKA_STORAGE_ERROR is here as in Kafka,
# which has metrics of its own for failed disks.
NOT_FAILURES = frozenset(
    (
        *TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)


# Counted only by topic, since each request counts them. Their totals are sums.
SUMMED = {
    "messages_in": catalogue.MESSAGES_IN,
    "bytes_in": catalogue.BYTES_IN,
    "bytes_out": catalogue.BYTES_OUT,
    "produce_requests": catalogue.PRODUCE_REQUESTS,
    "fetch_requests": catalogue.FETCH_REQUESTS,
}


class TotalTraffic:
    """The traffic of all topics, including deleted ones, as far as it is not a sum."""

    __slots__ = (
        "bytes_rejected",
        "failed_fetch",
        "failed_produce",
        "invalid_checksums",
        "invalid_magic",
        "invalid_offsets",
        "keyless",
        "reassignment_bytes_in",
        "reassignment_bytes_out",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self, registry: Registry) -> None:
        self.bytes_rejected = registry.counter(catalogue.BYTES_REJECTED)
        self.failed_produce = registry.counter(catalogue.FAILED_PRODUCE)
        self.failed_fetch = registry.counter(catalogue.FAILED_FETCH)
        self.invalid_checksums = registry.counter(catalogue.INVALID_CHECKSUMS)
        self.invalid_magic = registry.counter(catalogue.INVALID_MAGIC)
        self.invalid_offsets = registry.counter(catalogue.INVALID_OFFSETS)
        self.keyless = registry.counter(catalogue.KEYLESS)
        self.replication_bytes_in = registry.counter(catalogue.REPLICATION_BYTES_IN)
        self.replication_bytes_out = registry.counter(catalogue.REPLICATION_BYTES_OUT)
        self.reassignment_bytes_in = registry.counter(catalogue.REASSIGNMENT_BYTES_IN)
        self.reassignment_bytes_out = registry.counter(catalogue.REASSIGNMENT_BYTES_OUT)


class TopicTraffic:
    """Of one topic; each method also counts for all topics. Appends and reads add to the counters themselves."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch",
        "failed_produce",
        "fetch_requests",
        "messages_in",
        "produce_requests",
        "total",
    )

    def __init__(self, total: TotalTraffic, registry: Registry, topic: str) -> None:
        self.total = total
        self.messages_in = registry.counter(catalogue.MESSAGES_IN, topic)
        self.bytes_in = registry.counter(catalogue.BYTES_IN, topic)
        self.bytes_out = registry.counter(catalogue.BYTES_OUT, topic)
        self.bytes_rejected = registry.counter(catalogue.BYTES_REJECTED, topic)
        self.produce_requests = registry.counter(catalogue.PRODUCE_REQUESTS, topic)
        self.fetch_requests = registry.counter(catalogue.FETCH_REQUESTS, topic)
        self.failed_produce = registry.counter(catalogue.FAILED_PRODUCE, topic)
        self.failed_fetch = registry.counter(catalogue.FAILED_FETCH, topic)

    def replicated(self, size: int, *, reassigned: bool) -> None:
        """A follower fetched batches. `reassigned`: for a replica that is being added."""
        self.total.replication_bytes_in.count += size
        if reassigned:
            self.total.reassignment_bytes_in.count += size

    def refused(self, batch: ByteSource, refusal: KafkaError) -> None:
        """An append failed."""
        code, total = refusal.code, self.total
        if code in TOO_LARGE:
            self.bytes_rejected.count += len(batch)
            total.bytes_rejected.count += len(batch)
        elif code is ErrorCode.CORRUPT_MESSAGE:
            total.invalid_checksums.count += 1
        elif isinstance(refusal, RecordsRefused):
            total.keyless.count += len(refusal.records)
        elif code is ErrorCode.INVALID_RECORD and len(batch) > MAGIC_POSITION and batch[MAGIC_POSITION] != MAGIC:
            total.invalid_magic.count += 1
        elif code is ErrorCode.INVALID_RECORD:
            total.invalid_offsets.count += 1
        if code not in NOT_FAILURES:
            self.failed_produce.count += 1
            total.failed_produce.count += 1

    def unreadable(self, code: int) -> None:
        """A read failed."""
        if code not in NOT_FAILURES:
            self.failed_fetch.count += 1
            self.total.failed_fetch.count += 1


class Traffic:
    """All topics that have a replica here."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.total = TotalTraffic(registry)
        self._topics: dict[str, TopicTraffic] = {}
        # Of topics that were deleted or are not here.
        self._others = dict.fromkeys(SUMMED, 0)
        for name, metric in SUMMED.items():
            registry.counted(metric, partial(self._sum, name))

    def _sum(self, name: str) -> int:
        here: int = sum(getattr(topic, name).count for topic in self._topics.values())
        return self._others[name] + here

    def of(self, topic: str) -> TopicTraffic:
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = TopicTraffic(self.total, self._registry, topic)
        return known

    def fetched_missing(self) -> None:
        """A fetch names a partition that is not here."""
        self._others["fetch_requests"] += 1

    def forget(self, topic: str) -> None:
        known = self._topics.pop(topic, None)
        if known is not None:
            for name in SUMMED:
                self._others[name] += getattr(known, name).count
            for metric in catalogue.BY_TOPIC:
                self._registry.forget(metric, topic)
