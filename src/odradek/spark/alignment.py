"""Finds one timestamp at which the micro-batch ends in all topics, so that no topic runs ahead of another.

Several sources read the topics of an application, each in its own process. They find the same timestamp without
communication, because the search depends only on the logs. A micro-batch does not end `rows_max` records after the last
end. It ends where the sum of all offsets reaches a multiple of a quarter of `rows_max`. So sources that stopped a few
records apart find the same next end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from odradek.spark.offsets import Offsets, TopicPartition

# Spark cannot store a later timestamp.
TIME_MAX_MS = (1 << 63) // 1000

BACK_MS = 60_000

OffsetsAt = Callable[[int], Mapping[TopicPartition, int]]
"""For each partition, the first offset with this timestamp or a later one. Negative if there is none."""


Older = Callable[[int], int]
"""How many records there are before the first one with this timestamp or a later one."""


class Counted(NamedTuple):
    ms: int
    older: int


@dataclass(frozen=True, slots=True)
class Cut:
    time_ms: int
    # The first offset of each partition after the end of the micro-batch.
    offsets: Offsets


def at_time(time_ms: int, latest: Mapping[TopicPartition, int], offsets_at: OffsetsAt) -> Offsets:
    found = offsets_at(time_ms)
    return {place: min(found[place], end) if found[place] >= 0 else end for place, end in latest.items()}


def next_cut(
    begins: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    rows_max: int,
    *,
    after_ms: int | None,
    guess_ms: int,
    offsets_at: OffsetsAt,
) -> Cut | None:
    """The cut after the next records, about 3/4 of `rows_max` to `rows_max`. None if at most `rows_max` are left.

    `after_ms` is the cut that gave `begins`. Records with one timestamp stay together, however many they are.
    """
    begun = sum(min(begins[place], end) for place, end in latest.items())
    if sum(latest.values()) - begun <= rows_max:
        return None
    seen: dict[int, Offsets] = {}

    def older(time_ms: int) -> int:
        if time_ms not in seen:
            found = at_time(time_ms, latest, offsets_at)
            seen[time_ms] = {place: max(offset, min(begins[place], latest[place])) for place, offset in found.items()}
        return sum(seen[time_ms].values())

    step = max(rows_max // 4, 1)
    bound = (begun + rows_max) // step * step
    low_ms = -1 if after_ms is None else after_ms
    beyond_ms = first_above(bound, older, low_ms=low_ms, low_count=begun, guess_ms=guess_ms)
    if beyond_ms is None:
        return None
    time_ms = beyond_ms - 1 if beyond_ms - 1 > low_ms and older(beyond_ms - 1) > begun else beyond_ms
    older(time_ms)
    return Cut(time_ms, seen[time_ms])


def first_above(bound: int, older: Older, *, low_ms: int, low_count: int, guess_ms: int) -> int | None:
    """The first time after `low_ms` with more than `bound` older records, if there is one.

    `older` asks the brokers, so it is called rarely. The answer does not depend on the guess.
    """
    low, step = Counted(low_ms, low_count), max(guess_ms - low_ms, 1)
    while (high := Counted(low.ms + step, older(low.ms + step))).older <= bound:
        low, step = high, step * 2
        if low.ms + step >= TIME_MAX_MS:
            return None
    if low_ms < 0:
        low, high = _back(bound, older, low, high)
    turn = 0
    while high.ms - low.ms > 1:
        probe_ms = min(max(_probe(bound, low, high, turn), low.ms + 1), high.ms - 1)
        probed = Counted(probe_ms, older(probe_ms))
        low, high = (probed, high) if probed.older <= bound else (low, probed)
        turn += 1
    return high.ms


def _back(bound: int, older: Older, low: Counted, high: Counted) -> tuple[Counted, Counted]:
    """Search from the guess backwards in growing steps: most of the past has no records."""
    step = BACK_MS
    while (back_ms := high.ms - step) > low.ms:
        back = Counted(back_ms, older(back_ms))
        if back.older <= bound:
            return back, high
        high, step = back, step * 2
    return low, high


def _probe(bound: int, low: Counted, high: Counted, turn: int) -> int:
    """The place to expect if records came evenly, a bit later or earlier by turns; every third time, the middle."""
    width = high.ms - low.ms
    if turn % 3 == 2:
        return low.ms + width // 2
    even_ms = low.ms + width * (bound - low.older) // (high.older - low.older)
    return even_ms - math.isqrt(width) if turn % 3 else even_ms + math.isqrt(width)
