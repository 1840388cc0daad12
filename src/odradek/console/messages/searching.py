"""Finds the first or the last records of a topic that match, and says how far it has come.

A search goes in rounds. A round reads the next window of each partition, forwards or backwards, and merges what it
found by timestamp. Within a partition matches always come in the order of offsets, so that the positions after the last
shown match say where to continue: nothing is shown twice or left out.

Memory is bounded: all partitions together keep ROUND_BYTES of matches, as `show` returns them, and each at least one.
A window whose matches did not fit ends at the last one that did, and the merge does not go past it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

from odradek.base.limits import KIB, MIB
from odradek.console.filters import Matches
from odradek.console.filters.prefilter import Needles
from odradek.console.messages.reading import CannotRead, Group, Reader
from odradek.console.messages.seen import Decoders, Seen
from odradek.protocol.malformed import MalformedRecords

T = TypeVar("T")

ROUND_BYTES = 32 * MIB  # of all partitions together
WINDOW_BYTES_MIN, WINDOW_BYTES_MAX = 256 * KIB, 8 * MIB
WINDOW_OFFSETS_MIN = 200
REPORT_EVERY_S = 0.2
KEPT_BYTES = 2 * KIB  # of a match that is kept, about: a row of the page, or a record without its payload


class Range(NamedTuple):
    """Offsets of a partition; `end` is exclusive."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    records: int
    size_bytes: int
    share: float  # of the offsets of all ranges
    seconds: float
    found: int


class Match(NamedTuple, Generic[T]):
    timestamp: int
    partition: int
    offset: int
    shown: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted(Generic[T]):
    """What a search looks for. Without `matches` every record is found."""

    limit: int
    newest_first: bool
    decoders: Decoders
    show: Callable[[Seen], T]
    matches: Matches | None = None
    needles: Needles | None = None
    size: Callable[[T], int] = lambda _: KEPT_BYTES


class Search(Generic[T]):
    """One search. `rounds` may be called once."""

    def __init__(
        self,
        reader: Reader,
        ranges: Sequence[Range],
        wanted: Wanted[T],
        *,
        check: Callable[[], None],
        report: Callable[[Progress], None] = lambda _: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._wanted = wanted
        self._check = check
        self._report = report
        self._now_s = now_s
        # What is left to read, by partition.
        self._left = {each.partition: each for each in ranges if each.start < each.end}
        # Windows that were read and not wholly shown.
        self._kept: dict[int, _Window[T]] = {}
        self._total = sum(each.end - each.start for each in self._left.values())
        self._records = self._bytes = self._found = 0
        self._read = 0  # offsets of the ranges, also those of the current window
        self._began_s = self._reported_s = now_s()

    @property
    def left(self) -> Mapping[int, Range]:
        """Where to continue: the ranges that were not read, or whose matches were not shown."""
        return self._left

    @property
    def progress(self) -> Progress:
        return Progress(
            records=self._records,
            size_bytes=self._bytes,
            share=min(self._read / self._total, 1.0) if self._total else 1.0,
            seconds=self._now_s() - self._began_s,
            found=self._found,
        )

    def rounds(self) -> Iterator[list[Match[T]]]:
        """The matches of each round, in order. Raises CannotRead, and what `check` raises."""
        missing = self._wanted.limit
        while self._left and missing > 0:
            windows = [
                self._kept.pop(each.partition) if each.partition in self._kept else self._window(each, missing)
                for each in self._left.values()
            ]
            shown = self._merged(windows, missing)
            missing -= len(shown)
            self._found += len(shown)
            yield shown
        self._read = self._total if not self._left else self._read
        self._report(self.progress)

    # One window

    def _window(self, left: Range, missing: int) -> _Window[T]:
        width = min(self._width(missing), left.end - left.start)
        return (
            self._last_of(left, width, missing) if self._wanted.newest_first else self._first_of(left, width, missing)
        )

    def _first_of(self, left: Range, width: int, missing: int) -> _Window[T]:
        window = Range(left.partition, left.start, left.start + width)
        found: deque[Match[T]] = deque()
        free = self._bytes_each
        for match in self._matches(window):
            found.append(match)
            free -= self._wanted.size(match.shown)
            if len(found) == missing or free <= 0:
                return _Window(left, Range(left.partition, match.offset + 1, left.end), found, is_cut=True)
        return _Window(left, Range(left.partition, window.end, left.end), found, is_cut=False)

    def _last_of(self, left: Range, width: int, missing: int) -> _Window[T]:
        window = Range(left.partition, left.end - width, left.end)
        found: deque[Match[T]] = deque()
        free, is_cut = self._bytes_each, False
        for match in self._matches(window):
            found.append(match)
            free -= self._wanted.size(match.shown)
            while len(found) > missing or (free < 0 and len(found) > 1):
                free += self._wanted.size(found.popleft().shown)
                is_cut = True
        end = found[0].offset if is_cut else window.start
        found.reverse()
        return _Window(left, Range(left.partition, left.start, end), found, is_cut=is_cut)

    @property
    def _bytes_each(self) -> int:
        """What a partition may keep."""
        return ROUND_BYTES // max(len(self._left), 1)

    def _width(self, missing: int) -> int:
        """How many offsets a window spans. A filtered search uses the most that its limits of memory and time allow."""
        size = min(max(self._bytes_each, WINDOW_BYTES_MIN), WINDOW_BYTES_MAX)
        if self._wanted.matches is None:
            return min(missing, self._reader.offsets_in(size))
        return max(self._reader.offsets_in(size), WINDOW_OFFSETS_MIN)

    def _matches(self, window: Range) -> Iterator[Match[T]]:
        position = window.start
        try:
            for piece in self._reader.pieces(*window):
                self._bytes += piece.size_bytes
                for group in piece.groups:
                    self._check()
                    self._records += group.count
                    yield from self._matches_of(group, window.partition)
                self._read += piece.next_offset - position
                position = piece.next_offset
                self._report_at_times()
        except MalformedRecords as corrupt:
            raise CannotRead(f"partition {window.partition} near offset {position}: {corrupt}") from corrupt
        self._read += window.end - position

    def _matches_of(self, group: Group, partition: int) -> Iterator[Match[T]]:
        wanted = self._wanted
        if wanted.needles is not None and not group.has_any(wanted.needles):
            return
        for record in group.records():
            self._check()  # costs less than looking at the record, which may be large
            seen = Seen(partition, record, wanted.decoders)
            if wanted.matches is None or wanted.matches(seen):
                yield Match(record.timestamp, partition, record.offset, wanted.show(seen))

    def _report_at_times(self) -> None:
        now_s = self._now_s()
        if now_s - self._reported_s >= REPORT_EVERY_S:
            self._reported_s = now_s
            self._report(self.progress)

    # All windows of a round

    def _merged(self, windows: Sequence[_Window[T]], missing: int) -> list[Match[T]]:
        """The first matches by time. What is not shown is left for later.

        Ends where a partition has more that would come next, and was not read: its turn is in the next round.
        """
        sign = -1 if self._wanted.newest_first else 1
        taken = dict.fromkeys(range(len(windows)), 0)
        shown: list[Match[T]] = []
        heads = {index: window.found[0] for index, window in enumerate(windows) if window.found}
        while heads and len(shown) < missing:
            index = min(heads, key=lambda each: (sign * heads[each].timestamp, windows[each].before.partition))
            shown.append(heads.pop(index))
            taken[index] += 1
            window = windows[index]
            if taken[index] < len(window.found):
                heads[index] = window.found[taken[index]]
            elif (window.is_cut or self._wanted.matches is None) and window.after.start < window.after.end:
                break
        for index, window in enumerate(windows):
            self._continue(window, taken[index])
        return shown

    def _continue(self, window: _Window[T], shown: int) -> None:
        left = window.after
        if shown < len(window.found):
            left = window.before
            if shown and self._wanted.newest_first:
                left = left._replace(end=window.found[shown - 1].offset)
            elif shown:
                left = left._replace(start=window.found[shown - 1].offset + 1)
            for _ in range(shown):
                window.found.popleft()
            self._kept[left.partition] = replace(window, before=left)
        if left.start < left.end:
            self._left[left.partition] = left
        else:
            del self._left[left.partition]


@dataclass(frozen=True, slots=True)
class _Window(Generic[T]):
    before: Range  # what was left before the window
    after: Range  # what is left if all its matches are shown
    found: deque[Match[T]]  # in the order in which they are shown
    is_cut: bool  # the window ends where no more matches could be kept
