"""Which transactions a snapshot of PostgreSQL does not see, by `pg_current_snapshot` and the ids that the log has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import psycopg

_XIDS = 1 << 32  # the log has the lower 32 bits of a transaction's id


@dataclass(frozen=True, slots=True)
class Visibility:
    """Transactions from `end` on had not begun. Those in `open` had begun, and had not ended."""

    end: int
    open: frozenset[int]

    @classmethod
    def parsed(cls, snapshot: str) -> Visibility:
        """From XMIN:XMAX:XID,XID,..."""
        _, end, open_ = snapshot.split(":")
        return cls(int(end), frozenset(int(each) % _XIDS for each in open_.split(",") if each))

    @classmethod
    def of(cls, connection: psycopg.Connection) -> Visibility:
        (snapshot,) = connection.execute("SELECT pg_current_snapshot()::text").fetchone() or ("0:0:",)
        return cls.parsed(snapshot)

    def misses(self, xids: Iterable[int]) -> bool:
        """Whether it does not see one of these transactions, all of which are less than 2^31 away from `end`."""
        return any(xid in self.open or (xid - self.end) % _XIDS < _XIDS // 2 for xid in xids)
