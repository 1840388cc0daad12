"""Only the first of the rows of a key that are no further apart than `within`."""

from __future__ import annotations

from odradek.streams.engine.clock import Micros
from odradek.streams.engine.keys import key_bytes
from odradek.streams.engine.shard import Arrival, Bench


class Duplicates:
    """Keeps the times of the rows that were let through, as long as a row may come that repeats one of them."""

    def __init__(self, keys: tuple[int, ...], within: Micros, late: Micros) -> None:
        self._keys, self._within, self._late = keys, within, late

    def take(self, row: Arrival, now: Micros | None, step: Bench) -> None:
        if now is not None and row.time < now - self._late:
            step.too_late(row, now)
            return
        place = key_bytes(tuple(row.values[index] for index in self._keys))
        kept: list[Micros] = step.cells.get(place) or []
        if any(abs(row.time - time) <= self._within for time in kept):
            return
        step.cells.put(place, [*kept, row.time])
        step.timers.set(row.time + self._within + self._late + 1, place)
        step.give(row.time, row.values, record_key=row.record_key)

    def pass_time(self, now: Micros, step: Bench) -> None:
        while (due := step.timers.pop(now)) is not None:
            kept = [time for time in step.cells.get(due[1]) or () if time + self._within + self._late + 1 > due[0]]
            step.cells.put(due[1], kept or None)

    def end(self, now: Micros | None, step: Bench) -> None: ...
