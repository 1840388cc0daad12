"""The metadata log as the quorum sees it."""

from __future__ import annotations

from odradek.log.log import Log
from odradek.quorum.log_facts import SnapshotId


class MetadataLogFacts:
    __slots__ = ("_log", "newest_snapshot", "oldest_snapshot")

    def __init__(self, log: Log, newest_snapshot: SnapshotId | None) -> None:
        self._log = log
        self.newest_snapshot = newest_snapshot
        self.oldest_snapshot = newest_snapshot if log.log_start_offset > 0 else None

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        before_the_log = self.newest_snapshot.epoch if self.newest_snapshot else 0
        return max(self._log.leader_epochs.latest, before_the_log)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        return self._log.end_offset_for_epoch(leader_epoch)
