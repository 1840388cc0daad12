"""The log configuration of a topic, from its topic and broker configuration."""

from __future__ import annotations

from odradek.log.config import LogConfig
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.configs.topic import TopicConfig


def log_config(topic: TopicConfig, broker: BrokerConfig) -> LogConfig:
    return LogConfig(
        segment_bytes=topic.internal_segment_bytes or topic.segment_bytes,
        segment_ms=topic.segment_ms,
        segment_jitter_ms=topic.segment_jitter_ms,
        segment_index_bytes=topic.segment_index_bytes,
        index_interval_bytes=topic.index_interval_bytes,
        flush_messages=topic.flush_messages,
        flush_ms=topic.flush_ms,
        retention_ms=topic.retention_ms,
        retention_bytes=topic.retention_bytes,
        cleanup_policy=frozenset(topic.cleanup_policy),
        min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
        max_compaction_lag_ms=topic.max_compaction_lag_ms,
        delete_retention_ms=topic.delete_retention_ms,
        file_delete_delay_ms=topic.file_delete_delay_ms,
        max_message_bytes=topic.max_message_bytes,
        compression_type=topic.compression_type,
        compression_gzip_level=topic.compression_gzip_level,
        compression_lz4_level=topic.compression_lz4_level,
        compression_zstd_level=topic.compression_zstd_level,
        message_timestamp_type=topic.message_timestamp_type,
        message_timestamp_before_max_ms=topic.message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=topic.message_timestamp_after_max_ms,
        preallocate=topic.preallocate,
        producer_id_expiration_ms=broker.producer_id_expiration_ms,
    )
