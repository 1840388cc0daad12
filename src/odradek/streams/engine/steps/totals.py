"""Aggregates of all rows of a key since ever: a table. Each micro-batch gives the new row of each key that changed."""

from __future__ import annotations

from typing import Any

from odradek.streams.engine.clock import Micros
from odradek.streams.engine.keys import Key, key_bytes
from odradek.streams.engine.order import Position
from odradek.streams.engine.shard import Arrival, Bench
from odradek.streams.engine.steps.aggregates import Aggregates


class Totals:
    def __init__(self, keys: tuple[int, ...], aggregates: Aggregates) -> None:
        self._keys, self._aggregates = keys, aggregates
        self._changed: dict[bytes, tuple[Key, Position]] = {}

    def take(self, row: Arrival, now: Micros | None, step: Bench) -> None:  # noqa: ARG002
        key = tuple(row.values[index] for index in self._keys)
        place = key_bytes(key)
        kept: list[Any] = step.cells.get(place) or [row.time, self._aggregates.begin()]
        kept[0] = max(kept[0], row.time)
        self._aggregates.add(kept[1], row.values)
        step.cells.put(place, kept)
        self._changed[place] = key, row.at

    def pass_time(self, now: Micros, step: Bench) -> None: ...

    def end(self, now: Micros | None, step: Bench) -> None:  # noqa: ARG002
        for place, (key, at) in self._changed.items():
            newest, kept = step.cells.get(place)
            step.give(newest, (*key, *self._aggregates.results(kept)), at=at)
        self._changed.clear()
