"""What the quorum must know about the metadata log, and how two logs compare."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from odradek.base.ids import LeaderEpoch, Offset


class SnapshotId(NamedTuple):
    # The log continues here.
    end_offset: Offset
    epoch: LeaderEpoch


class EpochEnd(NamedTuple):
    leader_epoch: LeaderEpoch
    end_offset: Offset


class LogFacts(Protocol):
    """Read at each step. The effects of earlier steps are done by then: appends, truncations."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def synced_end_offset(self) -> int:
        """Every record below it is durable. A truncation or a loaded snapshot may lower it."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the newest snapshot if the log is empty, or 0 if there is neither."""

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        """The snapshot that replaces everything before the log start. None while the log starts at 0."""

    @property
    def newest_snapshot(self) -> SnapshotId | None: ...

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch in the log up to `leader_epoch`, and its end offset. (-1, -1) when unknown."""


def end_of_log(log: LogFacts) -> tuple[LeaderEpoch, Offset]:
    """To compare two logs: the log with the larger end has every record that may be committed in the other."""
    return LeaderEpoch(log.last_epoch), Offset(log.log_end_offset)


def parting(log: LogFacts, fetch_offset: Offset, last_fetched_epoch: LeaderEpoch) -> EpochEnd | SnapshotId | None:
    """Where a replica's log, known by its end, diverges from the leader's `log`. None if it is a prefix of it.

    A snapshot if that place is before the start of `log`.
    """
    newest = log.newest_snapshot
    if fetch_offset == 0:
        # A snapshot, if there is one, is cheaper than all records.
        return newest
    if newest is not None and _is_before(log, fetch_offset, last_fetched_epoch):
        return newest
    known_epoch, end_offset = _end_of_epoch(log, last_fetched_epoch)
    if known_epoch == last_fetched_epoch and end_offset >= fetch_offset:
        return None
    return EpochEnd(known_epoch, end_offset)


def truncation_point(log: LogFacts, diverging: EpochEnd) -> Offset:
    """The end of the part of a follower's `log` that may match a leader whose epoch ends at `diverging`."""
    known_epoch, end_offset = _end_of_epoch(log, diverging.leader_epoch)
    if known_epoch == diverging.leader_epoch:
        return min(end_offset, diverging.end_offset)
    return end_offset


def _is_before(log: LogFacts, fetch_offset: Offset, last_fetched_epoch: LeaderEpoch) -> bool:
    oldest = log.oldest_snapshot
    if oldest is None:
        return False
    at_start = fetch_offset == log.log_start_offset
    return (
        fetch_offset < log.log_start_offset
        or (at_start and last_fetched_epoch != oldest.epoch)
        or last_fetched_epoch < oldest.epoch
    )


def _end_of_epoch(log: LogFacts, leader_epoch: LeaderEpoch) -> EpochEnd:
    oldest = log.oldest_snapshot
    if oldest is not None and leader_epoch == oldest.epoch and log.log_end_offset == log.log_start_offset:
        return EpochEnd(leader_epoch, oldest.end_offset)
    known_epoch, end_offset = log.end_offset_for_epoch(leader_epoch)
    if known_epoch < 0:
        return EpochEnd(LeaderEpoch(log.last_epoch), Offset(log.log_end_offset))
    return EpochEnd(LeaderEpoch(known_epoch), Offset(end_offset))
