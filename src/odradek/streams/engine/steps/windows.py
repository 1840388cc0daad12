"""Aggregates by key and window of event time: once when the window is over, with each change, or both.

A window is over when event time is `grace` past its end; a row that comes later than that is late for it. Sessions are
windows that grow and meet: rows closer together than the gap are one; they are given once, when they are over. The last
value of a result says whether it is the final one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from odradek.streams.engine.clock import Micros
from odradek.streams.engine.keys import Key, key_bytes
from odradek.streams.engine.order import Position
from odradek.streams.engine.shard import Arrival, Bench
from odradek.streams.engine.steps.aggregates import Aggregates

Span = tuple[Micros, Micros]


@dataclass(slots=True)
class _OfKey:
    """The open windows of a key: what each has so far, by where it begins and ends."""

    key: Key
    windows: dict[Span, list[Any]]


class _Windows(ABC):
    def __init__(
        self, keys: tuple[int, ...], aggregates: Aggregates, grace: Micros, *, updates: bool, finals: bool
    ) -> None:
        self._keys, self._aggregates, self._grace = keys, aggregates, grace
        self._updates, self._finals = updates, finals
        self._changed: dict[tuple[bytes, Span], Position] = {}

    @abstractmethod
    def _add(self, row: Arrival, now: Micros | None, of_key: _OfKey) -> tuple[list[Span], list[Span]]:
        """The windows that the row changed, and the windows that it removed."""

    def take(self, row: Arrival, now: Micros | None, step: Bench) -> None:
        key = tuple(row.values[index] for index in self._keys)
        place = key_bytes(key)
        of_key: _OfKey = step.cells.get(place) or _OfKey(key, {})
        changed, gone = self._add(row, now, of_key)
        if not changed:
            step.too_late(row, now)
            return
        step.cells.put(place, of_key)
        for span in gone:
            step.timers.cancel(span[1] + self._grace, place)
        for span in changed:
            step.timers.set(span[1] + self._grace, place)
            if self._updates:
                self._changed[place, span] = row.at

    def pass_time(self, now: Micros, step: Bench) -> None:
        while (due := step.timers.pop(now)) is not None:
            self._close(*due, step)

    def end(self, now: Micros | None, step: Bench) -> None:  # noqa: ARG002
        for (place, span), at in self._changed.items():
            of_key = step.cells.get(place)
            if of_key is not None and span in of_key.windows:
                self._give(step, of_key, span, at)
        self._changed.clear()

    def _is_over(self, span: Span, now: Micros | None) -> bool:
        return now is not None and span[1] + self._grace <= now

    def _close(self, due: Micros, place: bytes, step: Bench) -> None:
        of_key: _OfKey | None = step.cells.get(place)
        if of_key is None:
            return
        for span in sorted(span for span in of_key.windows if span[1] + self._grace <= due):
            if (at := self._changed.pop((place, span), None)) is not None:
                self._give(step, of_key, span, at)
            if self._finals:
                values = self._row(of_key.key, span, of_key.windows[span], is_final=True)
                step.give_by_time(due, place, span[1] - 1, values)
            del of_key.windows[span]
        if of_key.windows:
            step.cells.put(place, of_key)
        else:
            step.cells.remove(place)

    def _give(self, step: Bench, of_key: _OfKey, span: Span, at: Position) -> None:
        """A change of a window."""
        step.give(span[1] - 1, self._row(of_key.key, span, of_key.windows[span], is_final=False), at=at)

    def _row(self, key: Key, span: Span, kept: list[Any], *, is_final: bool) -> tuple[Any, ...]:
        return (*key, *span, *self._aggregates.results(kept), is_final)


class FixedWindows(_Windows):
    """Windows of one length that begin every so often."""

    def __init__(
        self,
        keys: tuple[int, ...],
        aggregates: Aggregates,
        size: Micros,
        every: Micros,
        grace: Micros,
        *,
        updates: bool = False,
        finals: bool = True,
    ) -> None:
        super().__init__(keys, aggregates, grace, updates=updates, finals=finals)
        self._size, self._every = size, every

    def _add(self, row: Arrival, now: Micros | None, of_key: _OfKey) -> tuple[list[Span], list[Span]]:
        changed = []
        begin = row.time - row.time % self._every
        while begin > row.time - self._size:
            span = begin, begin + self._size
            if not self._is_over(span, now):
                kept = of_key.windows.get(span)
                if kept is None:
                    kept = of_key.windows[span] = self._aggregates.begin()
                self._aggregates.add(kept, row.values)
                changed.append(span)
            begin -= self._every
        return changed, []


class Sessions(_Windows):
    def __init__(self, keys: tuple[int, ...], aggregates: Aggregates, gap: Micros, grace: Micros) -> None:
        super().__init__(keys, aggregates, grace, updates=False, finals=True)
        self._gap = gap

    def _add(self, row: Arrival, now: Micros | None, of_key: _OfKey) -> tuple[list[Span], list[Span]]:
        own = row.time, row.time + self._gap
        met = sorted(span for span in of_key.windows if span[0] < own[1] and own[0] < span[1])
        if not met and self._is_over(own, now):
            return [], []
        whole = min([own[0], *(span[0] for span in met)]), max([own[1], *(span[1] for span in met)])
        kept = of_key.windows.pop(met[0]) if met else self._aggregates.begin()
        for span in met[1:]:
            kept = self._aggregates.merge(kept, of_key.windows.pop(span))
        self._aggregates.add(kept, row.values)
        of_key.windows[whole] = kept
        return [whole], [span for span in met if span != whole]
