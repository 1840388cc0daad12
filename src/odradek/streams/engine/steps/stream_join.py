"""Rows of two streams with equal keys whose times are close: left - before <= right <= left + after.

A pair is given when its second row arrives. A row of an outer side that met no other is given when event time says that
none can come any more. The time of a pair is the left row's, of a right join the right row's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from odradek.streams.engine.clock import Micros
from odradek.streams.engine.keys import key_bytes
from odradek.streams.engine.shard import Arrival, Bench, Values

How = Literal["inner", "left", "right", "outer"]


@dataclass(slots=True)
class _Waiting:
    time: Micros
    values: Values
    record_key: bytes | None
    met: bool = False


@dataclass(slots=True)
class _OfKey:
    sides: tuple[list[_Waiting], list[_Waiting]] = field(default_factory=lambda: ([], []))


class StreamJoin:
    def __init__(
        self,
        ports: tuple[int, int],
        keys: tuple[tuple[int, ...], tuple[int, ...]],
        widths: tuple[int, int],
        *,
        how: How,
        before: Micros,
        after: Micros,
        late: Micros,
    ) -> None:
        """`widths`: how many values a row of each side has."""
        self._ports, self._keys, self._late = ports, keys, late
        self._nothing = tuple((None,) * width for width in widths)
        self._outer = how in ("left", "outer"), how in ("right", "outer")
        self._by_right = how == "right"
        # how long after its own time a row may still be met by one of the other side
        self._patience = after, before
        self._bounds = before, after

    def take(self, row: Arrival, now: Micros | None, step: Bench) -> None:
        if now is not None and row.time < now - self._late:
            step.too_late(row, now)
            return
        side = self._ports.index(row.port)
        key = tuple(row.values[index] for index in self._keys[side])
        if None in key:  # equal to nothing
            if self._outer[side]:
                self._give(step, side, _Waiting(row.time, row.values, row.record_key), None)
            return
        place = key_bytes(key)
        of_key: _OfKey = step.cells.get(place) or _OfKey()
        mine = _Waiting(row.time, row.values, row.record_key)
        for other in of_key.sides[1 - side]:
            if self._is_near(side, mine.time, other.time):
                mine.met = other.met = True
                self._give(step, side, mine, other)
        of_key.sides[side].append(mine)
        step.cells.put(place, of_key)
        step.timers.set(self._end(side, mine), place)

    def pass_time(self, now: Micros, step: Bench) -> None:
        while (due := step.timers.pop(now)) is not None:
            of_key: _OfKey | None = step.cells.get(due[1])
            if of_key is not None:
                self._forget(*due, of_key, step)

    def end(self, now: Micros | None, step: Bench) -> None: ...

    def _is_near(self, side: int, mine: Micros, other: Micros) -> bool:
        left, right = (mine, other) if side == 0 else (other, mine)
        return left - self._bounds[0] <= right <= left + self._bounds[1]

    def _end(self, side: int, row: _Waiting) -> Micros:
        """No row of the other side that comes at this time or later can meet this one."""
        return row.time + self._patience[side] + self._late + 1

    def _forget(self, due: Micros, place: bytes, of_key: _OfKey, step: Bench) -> None:
        for side, rows in enumerate(of_key.sides):
            for row in rows:
                if not row.met and self._outer[side] and self._end(side, row) <= due:
                    pair = (row.values, self._nothing[1]) if side == 0 else (self._nothing[0], row.values)
                    step.give_by_time(due, place, row.time, (*pair[0], *pair[1]), record_key=row.record_key)
            rows[:] = [row for row in rows if self._end(side, row) > due]
        step.cells.put(place, of_key if any(of_key.sides) else None)

    def _give(self, step: Bench, side: int, mine: _Waiting, other: _Waiting | None) -> None:
        left, right = (mine, other) if side == 0 else (other, mine)
        timed = (right if self._by_right else left) or mine
        keyed = left or right
        values = (left.values if left else self._nothing[0], right.values if right else self._nothing[1])
        step.give(timed.time, (*values[0], *values[1]), record_key=keyed.record_key if keyed else None)
