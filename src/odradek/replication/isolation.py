"""How far a reader may read: Kafka's FetchIsolation."""

from __future__ import annotations

from enum import Enum

READ_COMMITTED = 1  # on the wire; 0 is read_uncommitted


class FetchIsolation(Enum):
    LOG_END = "log end"  # followers
    HIGH_WATERMARK = "high watermark"  # consumers with read_uncommitted
    TXN_COMMITTED = "last stable offset"  # consumers with read_committed


# For each fetch: looking up a member of an enum takes longer than a global name.
HIGH_WATERMARK, TXN_COMMITTED = FetchIsolation.HIGH_WATERMARK, FetchIsolation.TXN_COMMITTED


def isolation_of_consumer(isolation_level: int) -> FetchIsolation:
    return TXN_COMMITTED if isolation_level == READ_COMMITTED else HIGH_WATERMARK
