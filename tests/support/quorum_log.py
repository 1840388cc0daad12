"""A fake log in memory for the quorum's core. It can lose records that were not synced."""

from __future__ import annotations

from typing import NamedTuple

from odradek.quorum.log_facts import SnapshotId
from odradek.quorum.voters import VoterSet


class Entry(NamedTuple):
    epoch: int
    value: object


class FakeLog:
    def __init__(self, entries=()):
        # All records since offset 0. A real log would have only a snapshot of records below `log_start_offset`.
        self.entries: list[Entry] = list(entries)
        self.log_start_offset = 0
        self.newest_snapshot: SnapshotId | None = None
        self.oldest_snapshot: SnapshotId | None = None
        self.synced = 0
        self.truncations = 0

    @classmethod
    def of(cls, *epochs: int) -> FakeLog:
        """A synced log with one record for each of these epochs."""
        log = cls(Entry(epoch, (epoch, offset)) for offset, epoch in enumerate(epochs))
        log.synced = len(epochs)
        return log

    @property
    def log_end_offset(self) -> int:
        return len(self.entries)

    @property
    def synced_end_offset(self) -> int:
        return self.synced

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else 0

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Like the real log, it does not know epochs of records that it no longer has."""
        held = self.entries[self.log_start_offset :]
        if not held or leader_epoch > held[-1].epoch:
            return -1, -1
        for index in range(len(held) - 1, -1, -1):
            if held[index].epoch <= leader_epoch:
                return held[index].epoch, self.log_start_offset + index + 1
        return leader_epoch, self.log_start_offset

    def append(self, epoch: int, value: object) -> None:
        self.entries.append(Entry(epoch, value))

    def read(self, offset: int, most: int) -> list[Entry]:
        return self.entries[offset : offset + most]

    def truncate_to(self, offset: int) -> None:
        del self.entries[offset:]
        self.synced = min(self.synced, offset)
        self.truncations += 1

    def take_snapshot(self, end_offset: int) -> None:
        """Take a snapshot up to `end_offset`, and delete the log before it."""
        self._start_at(SnapshotId(end_offset, self.entries[end_offset - 1].epoch))

    def load_snapshot(self, snapshot: SnapshotId, contents: list[Entry]) -> None:
        self.entries = list(contents)
        self.synced = len(contents)
        self.truncations += 1
        self._start_at(snapshot)

    def _start_at(self, snapshot: SnapshotId) -> None:
        self.newest_snapshot = self.oldest_snapshot = snapshot
        self.log_start_offset = snapshot.end_offset

    def lose_unsynced(self, kept: int) -> None:
        """A power failure: only `kept` of the records that were not synced reached the disk."""
        del self.entries[self.synced + kept :]
        self.synced = len(self.entries)

    def newest_voters(self) -> tuple[VoterSet, int] | None:
        for offset in range(len(self.entries) - 1, -1, -1):
            if isinstance(self.entries[offset].value, VoterSet):
                return self.entries[offset].value, offset
        return None
