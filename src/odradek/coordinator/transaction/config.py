"""The settings of the transaction coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.metadata.configs.broker import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    timeout_max_ms: int = 900_000
    timed_out_check_interval_ms: int = 10_000
    expiration_ms: int = 7 * 24 * 3_600_000
    expired_check_interval_ms: int = 3_600_000

    @classmethod
    def of(cls, broker: BrokerConfig) -> TransactionConfig:
        return cls(
            timeout_max_ms=broker.transaction_max_timeout_ms,
            timed_out_check_interval_ms=broker.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiration_ms=broker.transactional_id_expiration_ms,
            expired_check_interval_ms=broker.transaction_remove_expired_transaction_cleanup_interval_ms,
        )
