"""One micro-batch of one shard: rows and time in the canonical order, delivered to the steps that live here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol

from odradek.streams.engine.clock import Beat, Clock, Micros
from odradek.streams.engine.order import Position, made_by_time, made_of_row
from odradek.streams.engine.store import ONE_RUN, Cells, Run, ShardStore, TimerQueue

Values = tuple[Any, ...]
LATE = "late"
CLOCK_STEP, CLOCK_KEY = -1, b"clock"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row that reaches a step."""

    at: Position
    port: int  # of the application
    time: Micros
    record_key: bytes | None
    deleted: bool
    values: Values
    whole: bytes | None = None  # the row before the step took its part of it, if late rows are to be given


@dataclass(frozen=True, slots=True)
class Result:
    """A row that leaves a step."""

    at: Position
    time: Micros
    record_key: bytes | None
    deleted: bool
    values: Values


class Step(Protocol):
    """A verb with state. `take` and `pass_time` are called in the canonical order, `end` after the last of both."""

    def take(self, row: Arrival, now: Micros | None, step: Bench) -> None: ...

    def pass_time(self, now: Micros, step: Bench) -> None: ...

    def end(self, now: Micros | None, step: Bench) -> None: ...


class Bench:
    """What a step works with: its state, its timers, and where it puts its results and the rows it cannot use."""

    __slots__ = ("_number", "_numbered", "at", "cells", "counts", "late", "results", "timers")

    def __init__(self, number: int, cells: Cells, timers: TimerQueue, counts: Counter[str]) -> None:
        self.cells, self.timers = cells, timers
        self.results: list[Result] = []
        self.late: list[Result] = []
        self.counts = counts
        self.at: Position = b""  # where the row or the time is that is being delivered
        self._number = number
        self._numbered = 0

    def move_to(self, at: Position) -> None:
        if at != self.at:
            self.at, self._numbered = at, 0

    def give(
        self,
        time: Micros,
        values: Values,
        *,
        record_key: bytes | None = None,
        deleted: bool = False,
        at: Position | None = None,
    ) -> None:
        """A result of the row that is being delivered, or of the one at `at`."""
        self._numbered += 1
        place = made_of_row(self.at if at is None else at, self._number, self._numbered)
        self.results.append(Result(place, time, record_key, deleted, values))

    def too_late(self, row: Arrival, now: Micros | None) -> None:
        """The step does not use this row, and leaves no trace of it: it came after the step had closed its time."""
        self.counts[LATE] += 1
        if row.whole is not None:
            self._numbered += 1
            behind = 0 if now is None else now - row.time
            place = made_of_row(self.at, self._number, self._numbered)
            self.late.append(Result(place, row.time, row.record_key, False, (row.whole, behind, row.port)))

    def give_by_time(
        self, due: Micros, key: bytes, time: Micros, values: Values, *, record_key: bytes | None = None
    ) -> None:
        """A result of the passing of time."""
        self._numbered += 1
        place = made_by_time(self.at, self._number, due, key, self._numbered)
        self.results.append(Result(place, time, record_key, False, values))


@dataclass(frozen=True, slots=True)
class Placed:
    """A step in its place: its number in the application, the ports it takes rows from, the sources of its time.

    `late_as`: the number under which the rows that come too late for it are given, if they are asked for. Each of them
    is (the whole row, how far behind event time it is, its port).
    """

    number: int
    step: Step
    ports: frozenset[int]
    sources: tuple[int, ...]
    late_as: int | None = None


def run_batch(
    store: ShardStore,
    batch: int,
    placed: Sequence[Placed],
    idle_after: Mapping[int, Micros | None],
    rows: Iterable[Arrival],
    beats: Iterable[Beat],
    run: Run = ONE_RUN,
) -> tuple[dict[int, list[Result]], Counter[str]]:
    """The results by step, with late rows under numbers of their own, and what was counted.

    The state is committed as that of this micro-batch.
    """
    store.begin(batch, run)
    try:
        counts: Counter[str] = Counter()
        benches = {
            one.number: Bench(one.number, store.cells(one.number), store.timers(one.number), counts) for one in placed
        }
        _Delivery(store, placed, benches, idle_after).run(rows, beats)
        store.commit(counts)
    except BaseException:
        store.roll_back()
        raise
    results = {number: bench.results for number, bench in benches.items()}
    late = {one.late_as: benches[one.number].late for one in placed if one.late_as is not None}
    return {**results, **late}, counts


_Event = tuple[Position, int, int, Callable[[Any], None], Any]


class _Delivery:
    def __init__(
        self,
        store: ShardStore,
        placed: Sequence[Placed],
        benches: Mapping[int, Bench],
        idle_after: Mapping[int, Micros | None],
    ) -> None:
        self._clocks = store.cells(CLOCK_STEP)
        self._clock: Clock = self._clocks.get(CLOCK_KEY) or Clock()
        self._placed, self._benches, self._idle_after = placed, benches, idle_after
        self._now = {one.number: self._time_of(one) for one in placed}
        self._by_port = {port: one for one in placed for port in one.ports}

    def run(self, rows: Iterable[Arrival], beats: Iterable[Beat]) -> None:
        events: list[_Event] = [(row.at, 1, row.port, self._take, row) for row in rows]
        events += [(beat.at, 0, beat.source, self._move, beat) for beat in beats]
        events.sort(key=itemgetter(0, 1, 2))
        for _, _, _, deliver, event in events:
            deliver(event)
        for one in self._placed:
            one.step.end(self._now[one.number], self._benches[one.number])
        self._clocks.put(CLOCK_KEY, self._clock)

    def _move(self, beat: Beat) -> None:
        self._clock.move(beat)
        for one in self._placed:
            now = self._time_of(one)
            if now is not None and now != self._now[one.number]:
                self._now[one.number] = now
                bench = self._benches[one.number]
                bench.move_to(beat.at)
                one.step.pass_time(now, bench)

    def _take(self, row: Arrival) -> None:
        one = self._by_port[row.port]
        bench = self._benches[one.number]
        bench.move_to(row.at)
        one.step.take(row, self._now[one.number], bench)

    def _time_of(self, one: Placed) -> Micros | None:
        return self._clock.now(one.sources, self._idle_after) if one.sources else None
