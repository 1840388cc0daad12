"""A user's function with state and timers per key, as a step of the engine.

- The function is called once for each row, in the canonical order, so that it does not matter how rows came together.
- A timer fires when event time, less how late rows may be, has reached it: always before a row that is later by that
  much. With `timers="processing"` the clock is the wall's, and is looked at once per micro-batch.
- With dead letters, what a row fails at is that row's failure and leaves no trace in the state.
- `ttl`: all state of a key is gone once a row, or event time, is so much later than the newest row before.
- A result has the time and the record key of its row; out of a timer, the timer's time and no record key.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema

from odradek.streams.compile.calling import RecordFailed
from odradek.streams.compile.event_time import milliseconds, moment
from odradek.streams.compile.python_rows import as_columns, check_values, error_of
from odradek.streams.compile.state.key_states import KeyStates
from odradek.streams.compile.state.parameters import Parameters
from odradek.streams.compile.state.processor import Plan
from odradek.streams.compile.state.values import plain, row_reader
from odradek.streams.engine.clock import Micros
from odradek.streams.engine.keys import Key, key_bytes
from odradek.streams.engine.order import record_place
from odradek.streams.engine.shard import Arrival, Bench, Values
from odradek.streams.graph.columns import CARRIED

MICROS = 1000  # of a millisecond
_LONG_AGO = -(1 << 62)


class ProcessStep:
    def __init__(
        self, plan: Plan, *, late: Micros, waits: bool, name: str = "process", has_records: bool = True
    ) -> None:
        """`waits`: whether timers or a ttl make it drop rows that come too late; `has_records`: a record stands behind
        each row, and is named if the function fails at it."""
        self._plan, self._late, self._waits = plan, late, waits
        self._name, self._has_records = name, has_records
        self._keys = tuple(plan.schema.names.index(name) for name in plan.keys)
        self._is_ready = False

    def take(self, row: Arrival, now: Micros | None, step: Bench) -> None:
        if self._waits and now is not None and row.time < now - self._late:
            step.too_late(row, now)
            return
        key = tuple(row.values[index] for index in self._keys)
        states = self._bound(key, now, step)
        self._grow_old(row, states, step)
        shown = self._read(self._make_row(*row.values))
        results = self._attempt(
            lambda: self._call(key, shown), lambda: self._where(row, shown), shown["_time"], shown, states
        )
        for time_, values in results:
            step.give(_micros(time_), values, record_key=row.record_key)

    def pass_time(self, now: Micros, step: Bench) -> None:
        if self._plan.clock == "event":
            self._fire_all(now, step)

    def end(self, now: Micros | None, step: Bench) -> None:  # noqa: ARG002
        if self._plan.clock == "processing":
            self._fire_all(int(time.time() * 1_000_000), step)

    # --- calling

    def _bound(self, key: Key, now: Micros | None, step: Bench) -> KeyStates:
        """The state objects, filled with what this key has."""
        if not self._is_ready:
            self._is_ready = True
            self._states = KeyStates(self._plan.states)
            self._read = row_reader(self._plan.schema)
            self._make_row = Row(*self._plan.schema.names)
            self._types = to_arrow_schema(self._plan.out, timezone="UTC")
        delay = self._late if self._plan.clock == "event" else 0
        clock = now if self._plan.clock == "event" else int(time.time() * 1_000_000)
        self._states.bind(key, key_bytes(key), step, delay, _LONG_AGO if clock is None else clock)
        return self._states

    def _call(self, key: Key, row: Row) -> Iterator[tuple[datetime, Values]]:
        self._states.timers.now = row["_time"]
        results = self._plan.function(self._shown(key), iter([row]), **self._arguments(self._plan.parameters))
        for result in results or ():
            yield row["_time"], self._values(result)

    def _fire(self, key: Key, fired: datetime) -> Iterator[tuple[datetime, Values]]:
        self._states.timers.now = fired
        on_timer = self._plan.on_timer or _nothing
        for result in on_timer(self._shown(key), fired, **self._arguments(self._plan.timer_parameters)) or ():
            yield fired, self._values(result)

    def _attempt(
        self,
        call: Callable[[], Iterator[tuple[datetime, Values]]],
        where: Callable[[], str],
        at: datetime,
        row: Row | None,
        states: KeyStates,
        record: Any = None,  # noqa: ANN401
    ) -> list[tuple[datetime, Values]]:
        """The results of one row or timer, or a dead letter and the state as it was."""
        if not self._plan.dead_letters:
            try:
                made = list(call())
            except Exception as problem:
                raise RecordFailed.at(self._name, where(), problem) from problem
            states.save()
            return made
        try:
            made = list(call())
            states.settle()
        except Exception as problem:  # noqa: BLE001 whatever the user's function does wrong is this row's failure
            states.undo()
            told = plain(row["_record"]) if row is not None else record
            made = [(at, (*(None for _ in self._plan.out), told, error_of(problem)))]
        states.save()
        return made

    def _arguments(self, wanted: Parameters) -> dict[str, Any]:
        arguments: dict[str, Any] = {name: self._states[name] for name in wanted.states}
        if wanted.timers is not None:
            arguments[wanted.timers] = self._states.timers
        return arguments

    def _shown(self, key: Key) -> Any:  # noqa: ANN401
        return key if len(self._plan.keys) > 1 else key[0]

    def _values(self, result: Any) -> Values:  # noqa: ANN401
        columns = {name: plain(value) for name, value in as_columns(result, self._plan.out.names).items()}
        if not self._plan.dead_letters:
            return tuple(columns.values())
        check_values(columns, self._types)  # what Arrow finds later is no longer the failure of one row
        return (*columns.values(), None, None)

    # --- time

    def _fire_all(self, now: Micros, step: Bench) -> None:
        while (due := step.timers.pop(now)) is not None:
            place = due[1]
            kept = step.cells.get(place)
            if kept is None:
                continue
            states = self._bound(kept["key"], now, step)
            fired = moment((due[0] - states.delay) // MICROS)
            if self._plan.ttl_ms is not None:
                self._end_of_life(milliseconds(fired), states, step)
                continue
            for time_, values in self._fired(fired, states):
                step.give_by_time(due[0], place, _micros(time_), values)

    def _fired(self, fired: datetime, states: KeyStates) -> list[tuple[datetime, Values]]:
        record = self._plan.timer_record(states.key, fired) if self._plan.dead_letters else None

        def where() -> str:
            return f"the timer of {self._shown(states.key)!r} at {fired.isoformat(timespec='milliseconds')}"

        return self._attempt(lambda: self._fire(states.key, fired), where, fired, None, states, record)

    def _where(self, row: Arrival, shown: Row) -> str:
        if self._has_records:
            return "record {}/{}/{}".format(*record_place(row.at))
        seen = {name: value for name, value in shown.asDict().items() if name not in CARRIED}
        return f"the row {json.dumps(seen, default=str)}"

    def _grow_old(self, row: Arrival, states: KeyStates, step: Bench) -> None:
        ttl = self._plan.ttl_ms
        if ttl is None:
            return
        seen = row.time // MICROS if self._plan.clock == "event" else int(time.time() * 1000)
        newest = states.newest_ms
        if newest is None:
            step.timers.set((seen + ttl + 1) * MICROS + states.delay, states.place)
        elif seen - newest > ttl:
            states.clear()
        states.newest_ms = seen if newest is None else max(seen, newest)

    def _end_of_life(self, clock_ms: int, states: KeyStates, step: Bench) -> None:
        """The one timer of a key with a ttl: rows that came since it was set only move it on."""
        newest, ttl = states.newest_ms or 0, self._plan.ttl_ms or 0
        if newest + ttl < clock_ms:
            step.cells.remove(states.place)
        else:
            step.timers.set((newest + ttl + 1) * MICROS + states.delay, states.place)


def _micros(time_: datetime) -> Micros:
    return milliseconds(time_) * MICROS + time_.microsecond % MICROS


def _nothing(*_: object, **__: object) -> tuple[()]:
    return ()
