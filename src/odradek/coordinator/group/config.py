"""The settings of the group coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.metadata.configs.broker import BrokerConfig

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    initial_rebalance_delay_ms: int = 3000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    offsets_retention_check_interval_ms: int = 600_000

    @classmethod
    def of(cls, broker: BrokerConfig) -> GroupConfig:
        return cls(
            initial_rebalance_delay_ms=broker.group_initial_rebalance_delay_ms,
            max_size=broker.group_max_size,
            offset_metadata_max_bytes=broker.offset_metadata_max_bytes,
            offsets_retention_ms=broker.offsets_retention_minutes * _MINUTE_MS,
            offsets_retention_check_interval_ms=broker.offsets_retention_check_interval_ms,
        )
