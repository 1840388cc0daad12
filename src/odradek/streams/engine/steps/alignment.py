"""Sliding windows that are aligned to records, as Kafka Streams has them. Times are integers; both ends are inclusive.

A record at t has the window that ends with it, [t - size, t]. It also has the window after it, [t + 1, t + 1 + size],
if that window contains a record. So there is a window for every set of records that fit together into `size`. The end
of a window identifies it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlignedWindow:
    start: int
    end: int
    first: int  # of its records, as indices into the times
    beyond: int  # the index after its last


def windows(times: Sequence[int], size: int, *, after: int, through: int) -> list[AlignedWindow]:
    """The windows over `times` (sorted) that end later than `after` and no later than `through`, by their ends."""
    return [
        AlignedWindow(end - size, end, bisect_left(times, end - size), bisect_right(times, end))
        for end in sorted({end for end in _ends(times, size) if after < end <= through})
    ]


def next_end(times: Sequence[int], size: int, *, after: int) -> int | None:
    """When the next window may end, of rows that are not forgettable at `after`; None: there are none.

    The window that begins after the first row may have no row in it yet. Until it ends the row is kept, since it is in
    the window of every row that comes until then.
    """
    if not times:
        return None
    following = bisect_right(times, after)
    begun = times[0] + 1 + size
    return min(begun, times[following]) if following < len(times) else begun


def forgettable(times: Sequence[int], size: int, *, closed: int) -> int:
    """How many of the first records no window that ends later than `closed` has, begins after or ends with."""
    return bisect_left(times, closed - size)


def _ends(times: Sequence[int], size: int) -> set[int]:
    ends = set(times)
    for index, time in enumerate(times):
        following = bisect_right(times, time, lo=index)
        if following < len(times) and times[following] <= time + 1 + size:
            ends.add(time + 1 + size)
    return ends
