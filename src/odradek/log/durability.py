"""How much of a log would survive a power cut, and the syncs that make more of it durable.

A sync begins on the event loop, runs on any thread and finishes on the loop. Records appended in between belong to the
next sync. The files of a sync are pinned, so that a roll, retention or eviction cannot close them while it runs.
"""

from __future__ import annotations

import contextlib

from odradek.base.invariants import invariant
from odradek.base.ports import File
from odradek.log import safeguards
from odradek.log.checkpoints import encode_epochs
from odradek.log.folder import LEADER_EPOCHS, Folder
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.segments import Segments


class SyncWork:
    __slots__ = ("_directories", "_epochs", "_files", "_folder", "_opened", "error", "history", "indexed_to", "offset")

    def __init__(self, folder: Folder, offset: int, *, history: int, indexed_to: int) -> None:
        self._folder = folder
        self._files: list[File] = []
        self._opened: list[File] = []  # for this sync only, closed after it
        self._directories: list[str] = []
        self._epochs: bytes | None = None
        self.offset = offset  # everything before it is durable after `run`
        self.history = history
        self.indexed_to = indexed_to  # so are the indexes of segments that end here or before
        self.error: OSError | None = None

    def add(self, *files: File) -> None:
        for file in files:
            file.pin()
            self._files.append(file)

    def add_name(self, name: str) -> None:
        file = self._folder.open(name)
        self._opened.append(file)
        self.add(file)

    def add_directory(self, path: str) -> None:
        self._directories.append(path)

    def add_epochs(self, epochs: LeaderEpochs) -> None:
        self._epochs = encode_epochs(epochs.entries())

    def run(self) -> None:
        """Slow; appends may continue. An error is kept for the log: a failed sync is never retried."""
        try:
            for file in self._files:
                safeguards.sync_file(file)
            for directory in self._directories:
                safeguards.sync_names(self._folder.disk, directory)
            # Last: if an epoch checkpoint exists, recovery trusts that the segment names are durable.
            if self._epochs is not None:
                safeguards.sync_leader_epochs(self._folder.disk, self._folder.at(LEADER_EPOCHS), self._epochs)
        except OSError as broken:
            self.error = broken
        finally:
            self.let_go()

    def let_go(self) -> None:
        for file in self._files:
            file.unpin()
        for file in self._opened:
            file.close()


class Durability:
    __slots__ = (
        "_folder",
        "_in_flight",
        "_unsynced_names",
        "_unsynced_since_ms",
        "history",
        "indexed_to",
        "is_new",
        "recovery_point",
    )

    def __init__(self, folder: Folder, recovery_point: int, *, is_new: bool) -> None:
        self._folder = folder
        self.recovery_point = recovery_point  # everything before it is durable; never beyond the log end
        self.indexed_to = 0  # the indexes of segments that end here or before are durable
        self.is_new = is_new  # not even the directory's name is durable
        self.history = 0  # counts truncations: a sync that began before one does not cover later writes
        self._in_flight: SyncWork | None = None
        self._unsynced_names: list[str] = []
        self._unsynced_since_ms: int | None = None

    @property
    def in_flight(self) -> bool:
        return self._in_flight is not None

    @property
    def checkpoint(self) -> int:
        """The recovery point to write to disk."""
        return safeguards.recovery_point_to_write(self.recovery_point, self.indexed_to)

    def also_sync(self, name: str) -> None:
        """Sync this small file too: it is written but not durable."""
        self._unsynced_names.append(name)

    def sync_identity(self) -> None:
        """Slow. Make the topic id and the names durable: a log without a topic id ignores its checkpoints."""
        for name in self._unsynced_names:
            with contextlib.suppress(FileNotFoundError):
                file = self._folder.open(name)
                safeguards.sync_file(file)
                file.close()
        safeguards.sync_names(self._folder.disk, self._folder.path)
        if self.is_new:
            safeguards.sync_names(self._folder.disk, "")

    def forget(self, name: str) -> None:
        """The file was removed and needs no sync."""
        if name in self._unsynced_names:
            self._unsynced_names.remove(name)

    def has_to_sync(self, log_end_offset: int, epochs: LeaderEpochs) -> bool:
        return (
            self.recovery_point < log_end_offset
            or bool(self._unsynced_names)
            or epochs.changed
            or self._folder.names_changed
        )

    def write_epochs(self, epochs: LeaderEpochs) -> None:
        """Write the epochs before a sync of the whole disk."""
        if epochs.changed:
            aside = LEADER_EPOCHS + ".tmp"
            self._folder.write(aside, encode_epochs(epochs.entries()))
            self._folder.rename(aside, LEADER_EPOCHS)

    def begin(self, segments: Segments, epochs: LeaderEpochs, end_offset: int) -> SyncWork:
        """Sync everything below `end_offset`: the log end, or the start of the active segment."""
        invariant(self._in_flight is None, f"{self._folder.path}: a sync is running already")
        indexed_to = segments.active.base_offset
        work = SyncWork(self._folder, end_offset, history=self.history, indexed_to=indexed_to)
        try:
            self._add_files(work, segments)
        except BaseException:
            work.let_go()
            raise
        self._in_flight = work
        self._unsynced_names = []
        if epochs.changed:
            work.add_epochs(epochs)
            epochs.changed = False
        if self._folder.names_changed:
            work.add_directory(self._folder.path)
            self._folder.names_changed = False
        if self.is_new:
            work.add_directory("")
        return work

    def _add_files(self, work: SyncWork, segments: Segments) -> None:
        for segment in segments.since(self.recovery_point):
            if segment.base_offset < work.offset:
                work.add(segment.file)
                if not segment.grows:
                    work.add(*segment.index_files())
        for name in self._unsynced_names:
            # The file is gone: a broken snapshot, or another thread just removed it because it expired.
            with contextlib.suppress(FileNotFoundError):
                work.add_name(name)

    def finish(self, work: SyncWork) -> None:
        self._in_flight = None
        if work.error is None:
            self.is_new = False
        if work.error is None and work.history == self.history:
            self.recovery_point = max(self.recovery_point, work.offset)
            self.indexed_to = work.indexed_to
        self._unsynced_since_ms = None

    def synced_all(self, end_offset: int) -> None:
        """The whole disk was synced after the last append."""
        self.recovery_point = self.indexed_to = end_offset

    def is_due(self, log_end_offset: int, flush_ms: int, wall_ms: int) -> bool:
        """The time counts from the first call with something unsynced."""
        if self.recovery_point == log_end_offset:
            self._unsynced_since_ms = None
            return False
        if self._unsynced_since_ms is None:
            self._unsynced_since_ms = wall_ms
        return wall_ms - self._unsynced_since_ms >= flush_ms

    def lower(self, offset: int, grows_from: int) -> bool:
        """Call before a truncation to `offset`, in segment `grows_from`. True when the recovery point was higher."""
        self.history += 1
        self.indexed_to = min(self.indexed_to, grows_from)
        if offset >= self.recovery_point:
            return False
        self.recovery_point = offset
        return True
