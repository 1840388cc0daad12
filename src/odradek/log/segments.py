"""The segments of one log in order, and reading across them."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

from odradek.base.invariants import invariant
from odradek.base.ports import Region
from odradek.log.scan import BatchSeen
from odradek.log.segment import RELATIVE_OFFSET_MAX, Segment

_base_offset = attrgetter("base_offset")


class Segments:
    __slots__ = ("_bases", "active", "in_order")

    def __init__(self, in_order: list[Segment]) -> None:
        invariant(bool(in_order), "a log has at least one segment")
        self.in_order = in_order
        self._bases = [segment.base_offset for segment in in_order]
        self.active = in_order[-1]

    def __len__(self) -> int:
        return len(self.in_order)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.in_order)

    def add(self, segment: Segment) -> None:
        invariant(
            segment.base_offset > self._bases[-1], f"segment {segment.base_offset} cannot follow {self._bases[-1]}"
        )
        self.in_order.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def next_base(self, log_end_offset: int) -> int:
        """The base offset of the next segment: where the last batch ends, even if the log end is in a gap after it.

        If the segment began at the log end, recovery would take the gap for lost records. Only a gap that is too large
        for one segment is accepted by recovery.
        """
        end_offset = self.active.end_offset()
        return end_offset if log_end_offset - end_offset <= RELATIVE_OFFSET_MAX else log_end_offset

    def take_first(self, count: int) -> list[Segment]:
        invariant(count < len(self), "the active segment cannot be removed")
        taken = self.in_order[:count]
        del self.in_order[:count], self._bases[:count]
        return taken

    def take_after(self, offset: int) -> list[Segment]:
        """Remove the segments that begin after `offset`. The segment that holds it becomes the active one."""
        kept = max(1, bisect_right(self._bases, offset))
        taken = self.in_order[kept:]
        del self.in_order[kept:], self._bases[kept:]
        self.active = self.in_order[-1]
        return taken

    def replace_all(self, segment: Segment) -> list[Segment]:
        taken = list(self.in_order)
        self.in_order[:] = [segment]
        self._bases[:] = [segment.base_offset]
        self.active = segment
        return taken

    def replace(self, old: list[Segment], new: list[Segment]) -> None:
        """Replace adjacent segments, but not the active one, with their compacted segments."""
        first = self.in_order.index(old[0])
        after = first + len(old)
        invariant(
            self.in_order[first:after] == old and after < len(self), "compaction cannot replace the active segment"
        )
        self.in_order[first:after] = new
        self._bases[first:after] = [segment.base_offset for segment in new]

    def since(self, offset: int) -> list[Segment]:
        """The segment that holds `offset` and all after it. Safe while the event loop changes the list."""
        in_order = list(self.in_order)
        return in_order[max(0, bisect_right(in_order, offset, key=_base_offset) - 1) :]

    def find(self, offset: int) -> tuple[Segment, BatchSeen] | None:
        """The first batch that ends at or after `offset`."""
        for segment in self.since(offset):
            seen = segment.find(offset)
            if seen is not None:
                return segment, seen
        return None

    def read(
        self, offset: int, max_bytes: int, end_offset: int, log_end_offset: int, *, whole_first_batch: bool
    ) -> Region | None:
        """Whole batches of one segment below `end_offset`, beginning with the batch that holds `offset`."""
        index = self._floor(offset)
        while True:
            segment = self.in_order[index]
            start = segment.locate(offset)
            if start is not None and start < segment.size:
                break
            index += 1
            if index == len(self.in_order):
                return None  # a gap of compaction at the log end: a crash or truncation removed the batch after it
        segment_end_offset = log_end_offset if segment is self.active else self._bases[index + 1]
        if end_offset >= segment_end_offset:
            end = segment.size
        else:
            found = segment.locate(end_offset)
            end = segment.size if found is None else found
        if end - start > max_bytes:
            end = min(end, segment.cut(start, max_bytes))
            if end == start and whole_first_batch:
                end = segment.batch_end(start)
        elif segment is self.active and end == segment.size:
            segment.bookmark(log_end_offset, end)
        return Region(segment.file, start, end - start) if end > start else None

    def _floor(self, offset: int) -> int:
        return max(0, bisect_right(self._bases, offset) - 1)
