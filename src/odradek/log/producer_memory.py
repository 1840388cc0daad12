"""The producer state of a log, and the snapshots on disk from which a restart restores it."""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_right, insort

from odradek.log.durability import Durability
from odradek.log.folder import SNAPSHOT, Folder, offset_name
from odradek.log.producer_history import rebuild_aborted, restore_producers, write_snapshot
from odradek.log.producer_snapshots import SnapshotBroken, decode_transactions
from odradek.log.producers import Producers
from odradek.log.segment import Segment
from odradek.log.segments import Segments
from odradek.log.transactions import Transactions

story = logging.getLogger(__name__)

UNREADABLE = -1


class ProducerMemory:
    __slots__ = ("_durability", "_first_open", "_folder", "_segments", "_snapshots", "known", "transactions")

    def __init__(
        self,
        folder: Folder,
        segments: Segments,
        durability: Durability,
        *,
        snapshots: list[int],
        known: Producers | None,
    ) -> None:
        self._folder = folder
        self._segments = segments
        self._durability = durability
        self._snapshots = snapshots  # their offsets, ascending
        # The oldest open transaction of the snapshots that compaction looked at last: at most two.
        self._first_open: dict[int, int] = {}
        self.known = known  # None: not restored yet from the snapshot at the log end
        # The transactions of the known producers, or those in the snapshot. None: neither has been read yet.
        self.transactions = None if known is None else known.transactions

    @property
    def count(self) -> int:
        """The producers that are known now; 0 while they are not restored."""
        return 0 if self.known is None else len(self.known.by_id)

    def restored(self, end_offset: int) -> Producers:
        if self.known is None:
            self.known = restore_producers(self._folder, self._snapshots, self._segments.in_order, end_offset)
            self.transactions = self.known.transactions
        return self.known

    def restored_transactions(self, end_offset: int) -> Transactions:
        """For readers: after a clean stop, the snapshot tells without a look at the log."""
        if self.transactions is None and end_offset in self._snapshots:
            with contextlib.suppress(SnapshotBroken, FileNotFoundError):
                content = self._folder.disk.read(self._folder.at(offset_name(end_offset, SNAPSHOT)))
                self.transactions = decode_transactions(content)
        return self.restored(end_offset).transactions if self.transactions is None else self.transactions

    def decided_before(self, durable_to: int) -> int:
        """Every transaction that begins below the returned offset has its marker below `durable_to`.

        The newest snapshot up to there says which transactions were open. Without one nothing is known: 0.
        """
        for offset in reversed(self._snapshots[: bisect_right(self._snapshots, durable_to)]):
            first_open = self._first_open.get(offset)
            if first_open is None:
                first_open = self._read_first_open(offset)
                self._note_first_open(offset, first_open)
            if first_open != UNREADABLE:
                return min(offset, first_open)
        return 0

    def _read_first_open(self, offset: int) -> int:
        path = self._folder.at(offset_name(offset, SNAPSHOT))
        try:
            return decode_transactions(self._folder.disk.read(path)).first_open()
        except (SnapshotBroken, OSError) as broken:
            story.warning("compaction uses an older snapshot of producers than %s: %s", path, broken)
            return UNREADABLE

    def _note_first_open(self, snapshot: int, first_open: int) -> None:
        self._first_open[snapshot] = first_open
        if len(self._first_open) > 2:
            del self._first_open[min(self._first_open)]

    def rebuild_aborted(self, segment: Segment) -> None:
        """Slow and rare: the index of aborted transactions of a segment is broken."""
        rebuild_aborted(self._folder, self._snapshots, self._segments.in_order, [segment])
        self._durability.also_sync(segment.aborted.name)

    def snapshot(self, end_offset: int) -> None:
        if end_offset == 0 or end_offset in self._snapshots:
            return
        self._durability.also_sync(write_snapshot(self._folder, self.restored(end_offset), end_offset))
        insort(self._snapshots, end_offset)
        self._note_first_open(end_offset, self.restored(end_offset).transactions.first_open())

    def forget_snapshot(self, offset: int) -> list[str]:
        """The file name of the snapshot, if there is one. The caller removes the file."""
        if offset not in self._snapshots:
            return []
        name = offset_name(offset, SNAPSHOT)
        self._snapshots.remove(offset)
        self._durability.forget(name)
        return [name]

    def cut_to(self, end_offset: int) -> None:
        """The log was truncated to `end_offset`."""
        self._remove([offset for offset in self._snapshots if offset > end_offset])
        self.known = self.transactions = None

    def clear(self) -> None:
        """The log is empty now."""
        self._remove(list(self._snapshots))
        self.known = self.transactions = None

    def _remove(self, offsets: list[int]) -> None:
        for offset in offsets:
            for name in self.forget_snapshot(offset):
                self._folder.remove(name)
