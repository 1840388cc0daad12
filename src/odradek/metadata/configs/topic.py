"""The supported topic keys, with Kafka's names, defaults and ranges.

Kafka's other keys are refused with a reason: every accepted key has an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.configs.definition import (
    INT64_MAX,
    Synonym,
    Value,
    at_least,
    between,
    boolean,
    definitions,
    distinct_among,
    double,
    int32,
    int64,
    one_of,
    suggestion,
    text,
    words,
)

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS


def _broker(*names: str) -> tuple[Synonym, ...]:
    return tuple(Synonym(name=name, factor=_factor(name)) for name in names)


def _factor(name: str) -> int:
    return {"minutes": _MINUTE_MS, "hours": _HOUR_MS}.get(name.rpartition(".")[2], 1)


def _gzip_level(level: int) -> str | None:
    return None if level == -1 or 1 <= level <= 9 else "Value must be between 1 and 9 or equal to -1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The effective config of one topic."""

    cleanup_policy: tuple[str, ...] = words(
        "cleanup.policy",
        ("delete",),
        "What happens to old data: delete, compact (the last record of each key is kept), both, or nothing when empty.",
        distinct_among("compact", "delete"),
        synonyms=_broker("log.cleanup.policy"),
    )
    retention_ms: int = int64(
        "retention.ms",
        7 * _DAY_MS,
        "How long a segment is kept after its newest record; -1 keeps it for ever.",
        at_least(-1),
        synonyms=_broker("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    retention_bytes: int = int64(
        "retention.bytes",
        -1,
        "How large a partition may grow before its oldest segments are deleted; -1 means no limit.",
        synonyms=_broker("log.retention.bytes"),
    )
    segment_bytes: int = int32(
        "segment.bytes",
        1024 * 1024 * 1024,
        "How large a segment file grows before the log rolls to the next one.",
        at_least(1024 * 1024),
        synonyms=_broker("log.segment.bytes"),
    )
    internal_segment_bytes: int | None = int32(
        "internal.segment.bytes",
        None,
        "Replaces segment.bytes, without its lower bound. For tests.",
        at_least(1),
        internal=True,
    )
    segment_ms: int = int64(
        "segment.ms",
        7 * _DAY_MS,
        "How old a segment gets before the log rolls to the next one.",
        at_least(1),
        synonyms=_broker("log.roll.ms", "log.roll.hours"),
    )
    segment_jitter_ms: int = int64(
        "segment.jitter.ms",
        0,
        "Random reduction of segment.ms, at most this much, so that partitions do not roll together.",
        at_least(0),
        synonyms=_broker("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    segment_index_bytes: int = int32(
        "segment.index.bytes",
        10 * 1024 * 1024,
        "How large an index grows before the log rolls to the next segment.",
        at_least(4),
        synonyms=_broker("log.index.size.max.bytes"),
    )
    index_interval_bytes: int = int32(
        "index.interval.bytes",
        4096,
        "How many bytes of records lie between two index entries.",
        at_least(0),
        synonyms=_broker("log.index.interval.bytes"),
    )
    max_message_bytes: int = int32(
        "max.message.bytes",
        1024 * 1024 + 12,
        "The largest record batch accepted, compressed or not: as it came, and as it is stored.",
        at_least(0),
        synonyms=_broker("message.max.bytes"),
    )
    min_insync_replicas: int = int32(
        "min.insync.replicas",
        1,
        "How many replicas must be in sync for a write with acks=all to be accepted.",
        at_least(1),
        synonyms=_broker("min.insync.replicas"),
    )
    unclean_leader_election_enable: bool = boolean(
        "unclean.leader.election.enable",
        False,
        "Whether a replica that is not in sync may lead when no other can, losing what it lacks.",
        synonyms=_broker("unclean.leader.election.enable"),
    )
    compression_type: str = text(
        "compression.type",
        "producer",
        "How batches are stored: uncompressed, zstd, lz4, snappy, gzip, or producer, which keeps them as they came. "
        "The leader recompresses a batch that came with another codec.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonyms=_broker("compression.type"),
    )
    compression_gzip_level: int = int32(
        "compression.gzip.level",
        -1,
        "How hard gzip tries when compression.type is gzip, from 1 to 9. -1 is the codec's default, 6.",
        _gzip_level,
        synonyms=_broker("compression.gzip.level"),
    )
    compression_lz4_level: int = int32(
        "compression.lz4.level",
        9,
        "How hard lz4 tries when compression.type is lz4. As in Kafka, 9 is the fast mode, all others the slow one.",
        between(1, 17),
        synonyms=_broker("compression.lz4.level"),
    )
    compression_zstd_level: int = int32(
        "compression.zstd.level",
        3,
        "How hard zstd tries when compression.type is zstd.",
        between(-131072, 22),
        synonyms=_broker("compression.zstd.level"),
    )
    message_timestamp_type: str = text(
        "message.timestamp.type",
        "CreateTime",
        "Whose clock stamps a record: the producer's (CreateTime) or the broker's (LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"),
        synonyms=_broker("log.message.timestamp.type"),
    )
    message_timestamp_before_max_ms: int = int64(
        "message.timestamp.before.max.ms",
        INT64_MAX,
        "How far before the broker's clock a record's timestamp may lie. With CreateTime only.",
        at_least(0),
        synonyms=_broker("log.message.timestamp.before.max.ms"),
    )
    message_timestamp_after_max_ms: int = int64(
        "message.timestamp.after.max.ms",
        _HOUR_MS,
        "How far after the broker's clock a record's timestamp may lie. With CreateTime only.",
        at_least(0),
        synonyms=_broker("log.message.timestamp.after.max.ms"),
    )
    flush_messages: int = int64(
        "flush.messages",
        INT64_MAX,
        "After how many records an fsync is forced; 1 makes each acknowledged write survive a power cut.",
        at_least(1),
        synonyms=_broker("log.flush.interval.messages"),
    )
    flush_ms: int = int64(
        "flush.ms",
        INT64_MAX,
        "After how long an fsync of written records is forced.",
        at_least(0),
        synonyms=_broker("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    file_delete_delay_ms: int = int64(
        "file.delete.delay.ms",
        _MINUTE_MS,
        "How long a deleted segment stays on disk.",
        at_least(0),
        synonyms=_broker("log.segment.delete.delay.ms"),
    )
    preallocate: bool = boolean(
        "preallocate",
        False,
        "Whether a segment's file gets its full size when it is created.",
        synonyms=_broker("log.preallocate"),
    )
    delete_retention_ms: int = int64(
        "delete.retention.ms",
        _DAY_MS,
        "How long compaction keeps a deletion marker, at least.",
        at_least(0),
        synonyms=_broker("log.cleaner.delete.retention.ms"),
    )
    min_compaction_lag_ms: int = int64(
        "min.compaction.lag.ms",
        0,
        "How long a record stays uncompacted, at least.",
        at_least(0),
        synonyms=_broker("log.cleaner.min.compaction.lag.ms"),
    )
    max_compaction_lag_ms: int = int64(
        "max.compaction.lag.ms",
        INT64_MAX,
        "How long a record stays uncompacted, at most.",
        at_least(1),
        synonyms=_broker("log.cleaner.max.compaction.lag.ms"),
    )
    min_cleanable_dirty_ratio: float = double(
        "min.cleanable.dirty.ratio",
        0.5,
        "Share of a log's bytes that must be new before it is compacted again.",
        between(0, 1),
        synonyms=_broker("log.cleaner.min.cleanable.ratio"),
    )


TOPIC_CONFIGS = definitions(TopicConfig)

_NO_TIERED_STORAGE = "tiered storage does not exist"
_NO_THROTTLE = "replication is not throttled"
# Unsupported keys of Kafka, with the reason.
REFUSED_TOPIC_CONFIGS: dict[str, str] = {
    "leader.replication.throttled.replicas": _NO_THROTTLE,
    "follower.replication.throttled.replicas": _NO_THROTTLE,
    "remote.storage.enable": _NO_TIERED_STORAGE,
    "local.retention.ms": _NO_TIERED_STORAGE,
    "local.retention.bytes": _NO_TIERED_STORAGE,
    "remote.log.copy.disable": _NO_TIERED_STORAGE,
    "remote.log.delete.on.disable": _NO_TIERED_STORAGE,
    "remote.copy.lag.ms": _NO_TIERED_STORAGE,
    "remote.copy.lag.bytes": _NO_TIERED_STORAGE,
    "errors.deadletterqueue.group.enable": "share groups do not exist yet",
}


def check_together(values: Mapping[str, str]) -> None:
    """Refuses values that are valid one by one but contradict each other."""
    smallest, largest = "min.compaction.lag.ms", "max.compaction.lag.ms"
    if smallest in values and largest in values and int(values[smallest]) > int(values[largest]):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting {smallest} ({values[smallest]}) > {largest} ({values[largest]})",
        )


def validate_topic_config(name: str, value: str | None) -> Value:
    """The parsed value, or a KafkaError with INVALID_CONFIG that names the key and the reason."""
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        reason = REFUSED_TOPIC_CONFIGS.get(name)
        if reason:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Topic config {name} is not supported by this broker: {reason}")
        hint = suggestion(name, TOPIC_CONFIGS)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}{hint}")
    if value is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
    return definition.parse(value)
