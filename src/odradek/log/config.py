"""The configuration of a topic's logs, as plain values. Names and defaults are those of Kafka."""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.protocol.compression import Codec

INT64_MAX = 2**63 - 1
WEEK_MS = 7 * 24 * 3600 * 1000

_CODECS = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = WEEK_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    retention_ms: int = WEEK_MS  # -1: forever
    retention_bytes: int = -1  # -1: any size
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    delete_retention_ms: int = 24 * 3600 * 1000
    file_delete_delay_ms: int = 60_000
    max_message_bytes: int = 1048588  # of the batch as received and as stored
    compression_type: str = "producer"  # "producer" keeps the producer's codec; or a codec name, or "uncompressed"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    preallocate: bool = False
    producer_id_expiration_ms: int = 24 * 3600 * 1000

    # Computed once, because every append reads them.
    compacts: bool = field(init=False)
    deletes: bool = field(init=False)
    stamps_append_time: bool = field(init=False)
    codec: Codec | None = field(init=False)  # for every batch; None: each batch keeps its producer's codec
    codec_level: int | None = field(init=False)
    looks_inside: bool = field(init=False)  # the records of some batches are read before they are appended
    roll_ms: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compacts", "compact" in self.cleanup_policy)
        object.__setattr__(self, "deletes", "delete" in self.cleanup_policy)
        # A record that must be compacted by max.compaction.lag.ms must have left the active segment by then.
        roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms
        object.__setattr__(self, "roll_ms", roll_ms)
        object.__setattr__(self, "stamps_append_time", self.message_timestamp_type == "LogAppendTime")
        codec = _CODECS[self.compression_type]
        levels = {
            Codec.GZIP: self.compression_gzip_level,
            Codec.LZ4: self.compression_lz4_level,
            Codec.ZSTD: self.compression_zstd_level,
        }
        object.__setattr__(self, "codec", codec)
        object.__setattr__(self, "codec_level", None if codec is None else levels.get(codec))
        object.__setattr__(self, "looks_inside", self.compacts or codec is not None)
