"""How far a reader may read: Kafka's FetchIsolation."""

from __future__ import annotations

from enum import Enum

READ_COMMITTED = 1  # on the wire; 0 is read_uncommitted


class FetchIsolation(Enum):
    LOG_END = "log end"  # followers
    HIGH_WATERMARK = "high watermark"  # consumers with read_uncommitted
    TXN_COMMITTED = "last stable offset"  # consumers with read_committed


def isolation_of_consumer(isolation_level: int) -> FetchIsolation:
    return FetchIsolation.TXN_COMMITTED if isolation_level == READ_COMMITTED else FetchIsolation.HIGH_WATERMARK
