"""Aggregates over record-aligned sliding windows, each given once, when event time is `grace` past its end.

State per key is the rows of the last `size`, each once; which windows they make is worked out when windows close.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from odradek.streams.engine.clock import Micros
from odradek.streams.engine.keys import Key, key_bytes
from odradek.streams.engine.shard import Arrival, Bench, Values
from odradek.streams.engine.steps.aggregates import Aggregates
from odradek.streams.engine.steps.alignment import forgettable, next_end, windows

MILLISECOND = 1000
_LONG_AGO = -(1 << 62)


@dataclass(slots=True)
class _OfKey:
    key: Key
    times: list[int]  # of the rows, in milliseconds, sorted
    rows: list[Values]  # of equal times, as they came
    closed: int  # windows that end by this millisecond are over


class SlidingWindows:
    def __init__(self, keys: tuple[int, ...], aggregates: Aggregates, size: Micros, grace: Micros) -> None:
        self._keys, self._aggregates = keys, aggregates
        self._size, self._grace = size // MILLISECOND, grace

    def take(self, row: Arrival, now: Micros | None, step: Bench) -> None:
        key = tuple(row.values[index] for index in self._keys)
        place = key_bytes(key)
        closed, time = self._closed(now), row.time // MILLISECOND
        if time < closed - self._size:
            step.too_late(row, now)
            return
        of_key: _OfKey = step.cells.get(place) or _OfKey(key, [], [], closed)
        of_key.closed = max(of_key.closed, closed)
        place_of_row = bisect_right(of_key.times, time)
        of_key.times.insert(place_of_row, time)
        of_key.rows.insert(place_of_row, row.values)
        self._save(place, of_key, step)

    def pass_time(self, now: Micros, step: Bench) -> None:
        while (due := step.timers.pop(now)) is not None:
            of_key: _OfKey | None = step.cells.get(due[1])
            if of_key is not None:
                self._close(*due, of_key, step)

    def end(self, now: Micros | None, step: Bench) -> None: ...

    def _close(self, due: Micros, place: bytes, of_key: _OfKey, step: Bench) -> None:
        through = self._closed(due)
        for window in windows(of_key.times, self._size, after=of_key.closed, through=through):
            kept = self._aggregates.begin()
            for values in of_key.rows[window.first : window.beyond]:
                self._aggregates.add(kept, values)
            span = window.start * MILLISECOND, window.end * MILLISECOND
            step.give_by_time(due, place, span[1], (*of_key.key, *span, *self._aggregates.results(kept), True))
        gone = forgettable(of_key.times, self._size, closed=through)
        del of_key.times[:gone], of_key.rows[:gone]
        of_key.closed = max(of_key.closed, through)
        self._save(place, of_key, step)

    def _save(self, place: bytes, of_key: _OfKey, step: Bench) -> None:
        end = next_end(of_key.times, self._size, after=of_key.closed)
        if end is None:
            step.cells.remove(place)
            return
        step.timers.set((end + 1) * MILLISECOND + self._grace, place)
        step.cells.put(place, of_key)

    def _closed(self, now: Micros | None) -> int:
        """The last millisecond that is over. A row at event time itself is in a window that ends there."""
        return _LONG_AGO if now is None else (now - self._grace) // MILLISECOND - 1
