"""Samples of the log ends of a topic: the last ones, for Burrow's rules, and a thinned history, for lag in seconds."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from odradek.base import limits

UNKNOWN_END = -1
# An age may be wrong by the time between two samples. A pair is near enough below this share of the age.
GAP_SHARE_MAX = 0.05


class Age(NamedTuple):
    """How long ago an offset was the end of its log."""

    seconds: float
    # The history does not reach back far enough: the true age is larger.
    is_minimum: bool


class Undated(NamedTuple):
    """An offset that was the end at `before_ms`, and no longer at `after_ms`."""

    partition: int
    offset: int
    before_ms: int
    after_ms: int


class TopicEnds:
    def __init__(self, intervals: int) -> None:
        self._intervals = intervals
        self.newest = array("q")
        self._rings: list[array[int]] = []
        self._next = array("H")
        # Rows of the history: a time, and the ends of all partitions at that time. Both ascend.
        self._times_ms: list[int] = []
        self._rows: list[array[int]] = []
        # When an offset of a partition stopped being the end, where the samples are too far apart to say it.
        self._dates_ms: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.newest)

    def add(self, partitions: int, ends: Mapping[int, int], now_ms: int) -> None:
        """One sample. A partition whose leader did not answer is missing in `ends` and keeps its former end."""
        while len(self.newest) < partitions:
            self.newest.append(UNKNOWN_END)
            self._rings.append(array("q"))
            self._next.append(0)
        for partition, end in ends.items():
            if end < self.newest[partition]:
                self._truncate(partition, end)
            self.newest[partition] = end
            ring, slot = self._rings[partition], self._next[partition]
            if len(ring) < self._intervals:
                ring.append(end)
            else:
                ring[slot] = end
            self._next[partition] = (slot + 1) % self._intervals
        self._times_ms.append(now_ms)
        self._rows.append(self.newest[:])
        self._thin(now_ms)

    def begin_with(self, times_ms: Sequence[int], rows: Sequence[Sequence[int]]) -> None:
        """Puts older samples before the history, such as the offsets that a broker finds for past times."""
        limit = self._times_ms[0] if self._times_ms else None
        older = [(at, array("q", row)) for at, row in zip(times_ms, rows, strict=True) if limit is None or at < limit]
        self._times_ms[:0] = [at for at, _ in older]
        self._rows[:0] = [row for _, row in older]
        while len(self._times_ms) > limits.log_end_samples_max:
            self._thin(self._times_ms[-1])

    def recent(self, partition: int) -> Sequence[int]:
        """The last samples, in any order."""
        return self._rings[partition]

    def knows(self, partition: int) -> bool:
        return 0 <= partition < len(self) and self.newest[partition] != UNKNOWN_END

    def known(self) -> list[int]:
        """The ends of all partitions that have one. Burrow omits the others, so an index is not always a partition."""
        return [end for end in self.newest if end != UNKNOWN_END]

    def age(self, partition: int, offset: int, now_ms: int) -> Age:
        """The time since `offset` was the end: zero at the end, otherwise interpolated between two samples."""
        if partition >= len(self) or offset >= self.newest[partition]:
            return Age(0.0, is_minimum=False)
        if (dated_ms := self._dates_ms.get((partition, offset))) is not None:
            return Age(max(now_ms - dated_ms, 0) / 1000, is_minimum=False)
        after = self._first_after(partition, offset)
        before_end = self._end_in(after - 1, partition) if after else UNKNOWN_END
        if before_end == UNKNOWN_END:
            return Age(max(now_ms - self._times_ms[after], 0) / 1000, is_minimum=True)
        before_ms, after_ms = self._times_ms[after - 1], self._times_ms[after]
        share = (offset - before_end) / (self._end_in(after, partition) - before_end)
        return Age(max(now_ms - before_ms - share * (after_ms - before_ms), 0) / 1000, is_minimum=False)

    def undated(self, behind: Collection[tuple[int, int]], now_ms: int) -> list[Undated]:
        """Those of these partitions and offsets whose age is uncertain. Forgets the dates of all others."""
        self._dates_ms = {place: at_ms for place, at_ms in self._dates_ms.items() if place in behind}
        found = []
        for partition, offset in behind:
            if (partition, offset) in self._dates_ms or not self.knows(partition) or offset >= self.newest[partition]:
                continue
            after = self._first_after(partition, offset)
            if not after or self._end_in(after - 1, partition) == UNKNOWN_END:
                continue
            before_ms, after_ms = self._times_ms[after - 1], self._times_ms[after]
            if after_ms - before_ms > GAP_SHARE_MAX * (now_ms - before_ms):
                found.append(Undated(partition=partition, offset=offset, before_ms=before_ms, after_ms=after_ms))
        return found

    def date(self, partition: int, offset: int, at_ms: int) -> None:
        """`offset` was the end until then."""
        self._dates_ms[partition, offset] = at_ms

    def at(self, partition: int, time_ms: int) -> int:
        """The end at a time, interpolated; before the first sample, the end of that sample."""
        after = bisect_right(self._times_ms, time_ms)
        if after == len(self._times_ms):
            return self.newest[partition]
        later = self._end_in(after, partition)
        before = self._end_in(after - 1, partition) if after else UNKNOWN_END
        if before == UNKNOWN_END:
            return later
        before_ms, after_ms = self._times_ms[after - 1], self._times_ms[after]
        return before + round((time_ms - before_ms) / (after_ms - before_ms) * (later - before))

    def _first_after(self, partition: int, offset: int) -> int:
        """The first row in which the end is behind `offset`."""
        return bisect_right(range(len(self._rows)), offset, key=lambda row: self._end_in(row, partition))

    def _end_in(self, row: int, partition: int) -> int:
        ends = self._rows[row]
        return ends[partition] if partition < len(ends) else 0  # the partition did not exist then

    def _truncate(self, partition: int, end: int) -> None:
        """Keeps the history ascending when records were lost, or the topic was created again."""
        self._dates_ms = {place: at_ms for place, at_ms in self._dates_ms.items() if place[0] != partition}
        for row in self._rows:
            if partition < len(row) and row[partition] > end:
                row[partition] = end

    def _thin(self, now_ms: int) -> None:
        """Removes the sample with the smallest gap in relation to its age, so that the history covers days."""
        times = self._times_ms
        if len(times) <= limits.log_end_samples_max:
            return
        inner = range(1, len(times) - 1)
        at = min(inner, key=lambda i: (times[i + 1] - times[i - 1]) / (now_ms - times[i] + 1))
        del times[at], self._rows[at]
