"""The quorum's view of the metadata log."""

from __future__ import annotations

from odradek.log.log import Log
from odradek.quorum.log_facts import SnapshotId


class MetadataLogFacts:
    __slots__ = ("_log", "_snapshots")

    def __init__(self, log: Log, snapshots: list[SnapshotId]) -> None:
        """`snapshots`: oldest first. The caller updates the list when it writes or removes a snapshot."""
        self._log = log
        self._snapshots = snapshots

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        return self._snapshots[-1] if self._snapshots else None

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        start = self._log.log_start_offset
        return next((each for each in self._snapshots if each.end_offset >= start), None) if start > 0 else None

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def synced_end_offset(self) -> int:
        return self._log.recovery_point

    @property
    def last_epoch(self) -> int:
        newest = self.newest_snapshot
        return max(self._log.leader_epochs.latest, newest.epoch if newest else 0)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        return self._log.end_offset_for_epoch(leader_epoch)
