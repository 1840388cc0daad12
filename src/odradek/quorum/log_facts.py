"""What the quorum must know about the log it agrees on, and what two logs say about each other."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from odradek.base.ids import LeaderEpoch, Offset


class SnapshotId(NamedTuple):
    # The log goes on here.
    end_offset: Offset
    epoch: LeaderEpoch


class EpochEnd(NamedTuple):
    leader_epoch: LeaderEpoch
    end_offset: Offset


class LogFacts(Protocol):
    """Read at each step. What effects asked for is done by then: an append, a truncation."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int:
        """Of the last record; of the newest snapshot when the log holds none; 0 when there is neither."""

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        """The one that stands for everything before the log's start. None while the log starts at 0."""

    @property
    def newest_snapshot(self) -> SnapshotId | None: ...

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch in the log up to `leader_epoch` and the offset where it ends; (-1, -1) when unknown."""
