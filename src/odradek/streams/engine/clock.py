"""Event time of a shard: the newest time that each source has shown, in the canonical order.

A beat says that a source has reached a time at a position. Beats are made where a source's rows are read, and every
shard gets all of them, so all shards agree on the time at each position. The time of a step is that of its slowest
source. A source that shows nothing for `idle_after`, by the record timestamps of the others, no longer holds it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.streams.engine.order import Position, timestamp_ms

Micros = int
SOURCE_QUANTUM_MAX = 100_000
QUANTA_PER_LATENESS = 20
LIFE_MS = 100
"""Silence is measured in steps of this: the first row of each step shows life, wherever a micro-batch begins."""


@dataclass(frozen=True, slots=True)
class Source:
    """A stream whose rows move time. `quantum`: time moves in steps of it, which keeps beats fewer than rows.

    `shows_life`: that rows came counts, too, since this source or one beside it may be idle.
    """

    number: int
    late: Micros
    idle_after: Micros | None = None
    shows_life: bool = False

    @property
    def quantum(self) -> Micros:
        return max(1000, min(SOURCE_QUANTUM_MAX, self.late // QUANTA_PER_LATENESS))


@dataclass(frozen=True, slots=True, order=True)
class Beat:
    at: Position
    source: int
    time: Micros


def beats(source: Source, rows: Iterable[tuple[Position, Micros]]) -> list[Beat]:
    """Where the rows of one task move the time of their source, or show that it is not idle."""
    found: list[Beat] = []
    newest: Micros | None = None
    shown_ms: int | None = None
    for at, time in sorted(rows):
        reached = time - time % source.quantum
        alive_ms = _life_ms(at)
        if newest is None or reached > newest or (source.shows_life and alive_ms != shown_ms):
            newest = reached if newest is None else max(newest, reached)
            shown_ms = alive_ms
            found.append(Beat(at, source.number, newest))
    return found


def _life_ms(at: Position) -> int:
    stamp = timestamp_ms(at)
    return stamp - stamp % LIFE_MS


@dataclass(slots=True)
class Clock:
    """How far the sources are. It is kept with the state of the shard."""

    newest: dict[int, Micros] = field(default_factory=dict)
    shown_ms: dict[int, int] = field(default_factory=dict)
    first_ms: int | None = None
    last_ms: int = 0
    reached: dict[tuple[int, ...], Micros] = field(default_factory=dict)  # never goes back

    def move(self, beat: Beat) -> None:
        at_ms = _life_ms(beat.at)
        if self.first_ms is None:
            self.first_ms = at_ms
        self.last_ms = max(self.last_ms, at_ms)
        self.newest[beat.source] = max(beat.time, self.newest.get(beat.source, beat.time))
        self.shown_ms[beat.source] = max(at_ms, self.shown_ms.get(beat.source, at_ms))

    def now(self, sources: Sequence[int], idle_after: Mapping[int, Micros | None]) -> Micros | None:
        """The time of a step that these sources feed; None before all of them have shown one."""
        awake = [source for source in sources if not self._is_idle(source, idle_after.get(source))]
        if any(source not in self.newest for source in awake):
            return None
        known = [self.newest[source] for source in awake]
        if not known:
            known = [max((self.newest[source] for source in sources if source in self.newest), default=0)]
        group = tuple(sources)
        self.reached[group] = max(min(known), self.reached.get(group, min(known)))
        return self.reached[group]

    def _is_idle(self, source: int, idle_after: Micros | None) -> bool:
        if idle_after is None or self.first_ms is None:
            return False
        return (self.last_ms - self.shown_ms.get(source, self.first_ms)) * 1000 > idle_after
