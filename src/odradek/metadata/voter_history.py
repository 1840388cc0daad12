"""Who votes, as far as the log says: the newest voter set counts, committed or not, and goes when it is truncated."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.base.ids import Offset
from odradek.metadata.batches import MetadataBatch
from odradek.protocol.control_records import VotersRecord
from odradek.quorum.voters import VoterSet, voters_from_record


class VoterHistory:
    __slots__ = ("_sets",)

    def __init__(self) -> None:
        # By the offset of the batch that holds them, oldest first.
        self._sets: list[tuple[Offset, VoterSet]] = []

    @property
    def newest(self) -> VoterSet:
        return self._sets[-1][1]

    @property
    def newest_offset(self) -> Offset:
        return self._sets[-1][0]

    def at(self, offset: Offset) -> VoterSet:
        """Who voted when everything up to `offset` was in the log."""
        return next(voters for found_at, voters in reversed(self._sets) if found_at <= offset)

    def found(self, offset: Offset, voters: VoterSet) -> None:
        self._sets.append((offset, voters))

    def appended(self, batches: Iterable[MetadataBatch]) -> bool:
        """Whether the voters are others than before."""
        count = len(self._sets)
        for batch in batches:
            for record in batch.control:
                if isinstance(record, VotersRecord):
                    self.found(batch.last_offset, voters_from_record(record))
        return len(self._sets) > count

    def truncated(self, end_offset: Offset) -> bool:
        """Whether the voters are others than before."""
        kept = [(offset, voters) for offset, voters in self._sets if offset < end_offset]
        changed = len(kept) < len(self._sets)
        self._sets = kept
        return changed

    def replace_by(self, other: VoterHistory) -> None:
        """A snapshot takes the place of the log."""
        self._sets = list(other._sets)
