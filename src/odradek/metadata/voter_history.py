"""The voters according to the log. The newest voter set applies, committed or not, until it is truncated."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.base.ids import Offset
from odradek.metadata.batches import MetadataBatch
from odradek.protocol.control_records import VotersRecord
from odradek.quorum.voters import VoterSet, voters_from_record


class VoterHistory:
    __slots__ = ("_sets",)

    def __init__(self) -> None:
        # With the offset of their batch, oldest first.
        self._sets: list[tuple[Offset, VoterSet]] = []

    @property
    def newest(self) -> VoterSet:
        return self._sets[-1][1]

    @property
    def newest_offset(self) -> Offset:
        return self._sets[-1][0]

    def at(self, offset: Offset) -> VoterSet:
        """The voters when the log ended at `offset`."""
        return next(voters for found_at, voters in reversed(self._sets) if found_at <= offset)

    def found(self, offset: Offset, voters: VoterSet) -> None:
        self._sets.append((offset, voters))

    def appended(self, batches: Iterable[MetadataBatch]) -> bool:
        """Returns whether the voters changed."""
        count = len(self._sets)
        for batch in batches:
            for record in batch.control:
                if isinstance(record, VotersRecord):
                    self.found(batch.last_offset, voters_from_record(record))
        return len(self._sets) > count

    def truncated(self, end_offset: Offset) -> bool:
        """Returns whether the voters changed."""
        kept = [(offset, voters) for offset, voters in self._sets if offset < end_offset]
        changed = len(kept) < len(self._sets)
        self._sets = kept
        return changed

    def replace_by(self, other: VoterHistory) -> None:
        """Replaces the history with that of a snapshot."""
        self._sets = list(other._sets)
