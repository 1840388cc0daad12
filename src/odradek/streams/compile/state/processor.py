"""Inside Spark's workers: calls the user's function for each key, with the key's state."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Row
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from odradek.pipeline.formats.dead_letters import HEADER
from odradek.streams.compile.event_time import milliseconds, moment
from odradek.streams.compile.python_rows import as_columns, check_values, error_of
from odradek.streams.compile.state.output import Output
from odradek.streams.compile.state.parameters import Declared, Parameters
from odradek.streams.compile.state.states import ListState, MapState, State, Timers
from odradek.streams.compile.state.values import plain, row_reader

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
        ValueState,
    )

Clock = Literal["event", "processing"]
Function = Callable[..., Iterable[Any] | None]
AnyState = State[Any] | ListState[Any] | MapState[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    keys: tuple[str, ...]
    function: Function
    on_timer: Function | None
    parameters: Parameters
    timer_parameters: Parameters
    schema: T.StructType  # of the input rows
    out: T.StructType  # of the output rows
    ttl_ms: int | None
    clock: Clock
    dead_letters: bool

    def timer_record(self, key: tuple[Any, ...], fired: datetime) -> dict[str, Any]:
        """No record stands behind a timer: the key is its value, and headers say which timer of which key it was."""
        text = json.dumps(dict(zip(self.keys, key, strict=True)), default=str).encode()
        told = {"key": text, "timer": fired.isoformat(timespec="milliseconds").encode()}
        headers = [{"key": HEADER + name, "value": value} for name, value in told.items()]
        known = {"value": text, "timestamp": fired, "headers": headers}
        record: Any = self.schema["_record"].dataType
        return {name: known.get(name) for name in record.names}

    @property
    def uses_timers(self) -> bool:
        return self.on_timer is not None or self.parameters.timers is not None

    @property
    def states(self) -> dict[str, Declared]:
        return {**self.timer_parameters.states, **self.parameters.states}


class Processor(StatefulProcessor):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._on_timer: Function = plan.on_timer or _nothing

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._states = {name: _state(handle, name, declared) for name, declared in self._plan.states.items()}
        self._timers = Timers(handle)
        self._handle = handle
        if self._plan.ttl_ms is not None:
            self._alive: ValueState = handle.getValueState("_alive", "newest_ms long")
        self._read = row_reader(self._plan.schema)
        self._types = to_arrow_schema(self._plan.out, timezone="UTC")

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[Any, ...],
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Output]:
        ordered = sorted(map(self._read, rows), key=_time)
        for piece, is_new_life in self._lives(ordered, timerValues):
            if is_new_life:
                self._clear()
            if self._plan.dead_letters:
                for row in piece:
                    yield from self._attempt(self._call(key, [row]), row["_time"], row, plain(row["_record"]))
            else:
                yield from self._call(key, piece)
        self._save(timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: tuple[Any, ...],
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Output]:
        if self._plan.ttl_ms is not None:
            self._end_of_life(self._clock(timerValues), self._plan.ttl_ms)
            return
        fired = moment(expiredTimerInfo.getExpiryTimeInMs())
        if self._plan.dead_letters:
            yield from self._attempt(self._fire(key, fired), fired, None, self._plan.timer_record(key, fired))
        else:
            yield from self._fire(key, fired)
        self._save(timerValues)

    def close(self) -> None: ...

    # --- calling

    def _call(self, key: tuple[Any, ...], rows: list[Row]) -> Iterator[Output]:
        read: list[Row] = rows[:1]

        def following() -> Iterator[Row]:
            for row in rows:
                read[0] = row
                self._timers.now = row["_time"]
                yield row

        self._timers.now = rows[0]["_time"]
        results = self._plan.function(self._shown(key), following(), **self._arguments(self._plan.parameters))
        for result in results or ():
            yield self._output(result, read[0]["_time"], read[0])

    def _fire(self, key: tuple[Any, ...], fired: datetime) -> Iterator[Output]:
        self._timers.now = fired
        wanted = self._arguments(self._plan.timer_parameters)
        for result in self._on_timer(self._shown(key), fired, **wanted) or ():
            yield self._output(result, fired, None)

    def _attempt(self, results: Iterator[Output], time: datetime, row: Row | None, record: Any) -> list[Output]:  # noqa: ANN401
        """The function's results for one row or timer, or a dead letter and the state as it was."""
        parts = [*self._states.values(), self._timers]
        try:
            made = list(results)
            news = [part.news() for part in parts]  # all of them before the first one holds
        except Exception as problem:  # noqa: BLE001 whatever the user's function does wrong is this row's failure
            for part in parts:
                part.undo()
            return [Output(self._carried(time, row), _record=record, _error=error_of(problem))]
        for part, done in zip(parts, news, strict=True):
            part.settle(done)
        return made

    def _arguments(self, wanted: Parameters) -> dict[str, Any]:
        arguments: dict[str, Any] = {name: self._states[name] for name in wanted.states}
        if wanted.timers is not None:
            arguments[wanted.timers] = self._timers
        return arguments

    def _shown(self, key: tuple[Any, ...]) -> Any:  # noqa: ANN401
        return key if len(self._plan.keys) > 1 else key[0]

    def _output(self, result: Any, time: datetime, row: Row | None) -> Output:  # noqa: ANN401
        columns = {name: plain(value) for name, value in as_columns(result, self._plan.out.names).items()}
        if self._plan.dead_letters:  # what Spark finds later is no longer the failure of one row
            check_values(columns, self._types)
        return Output(columns, **self._carried(time, row))

    def _carried(self, time: datetime, row: Row | None) -> dict[str, Any]:
        has_key = row is not None and "_key" in self._plan.schema.names
        return {"_time": time, "_key": row["_key"] if has_key else None}  # type: ignore[index]

    # --- the life of a key's state

    def _lives(self, rows: list[Row], timer_values: TimerValues) -> Iterator[tuple[list[Row], bool]]:
        """Rows with less than the ttl between them, and whether the state from before them is over."""
        ttl = self._plan.ttl_ms
        if ttl is None:
            yield rows, False
            return
        stored = self._alive.get()
        newest: int = self._now(timer_values, rows[0]) if stored is None else stored[0]
        piece: list[Row] = []
        is_new_life = False
        for row in rows:
            now = self._now(timer_values, row)
            if now - newest > ttl:
                if piece:
                    yield piece, is_new_life
                piece, is_new_life = [], True
            newest = max(now, newest)
            piece.append(row)
        yield piece, is_new_life
        self._alive.update((newest,))
        if stored is None:
            self._handle.registerTimer(max(newest + ttl, self._clock(timer_values)) + 1)

    def _end_of_life(self, clock: int, ttl: int) -> None:
        """The one timer of a key with a ttl: rows that came since it was set only move it on."""
        newest = (self._alive.get() or (0,))[0]
        if newest + ttl < clock:
            self._clear()
            for state in self._states.values():
                state.save()
                state.forget()
            self._alive.clear()
        else:
            self._handle.registerTimer(newest + ttl + 1)

    def _clear(self) -> None:
        for state in self._states.values():
            state.clear()
            state.settle(state.news())

    def _save(self, timer_values: TimerValues) -> None:
        for state in self._states.values():
            state.save()
            state.forget()
        self._timers.save(self._clock(timer_values))
        self._timers.forget()

    def _now(self, timer_values: TimerValues, row: Row) -> int:
        return milliseconds(row["_time"]) if self._plan.clock == "event" else self._clock(timer_values)

    def _clock(self, timer_values: TimerValues) -> int:
        if self._plan.clock == "event":
            return timer_values.getCurrentWatermarkInMs()
        return timer_values.getCurrentProcessingTimeInMs()


def _state(handle: StatefulProcessorHandle, name: str, declared: Declared) -> AnyState:
    codec, *more = declared.codecs
    if declared.kind is ListState:
        return ListState(handle.getListState(name, codec.schema), codec)
    if declared.kind is MapState:
        return MapState(handle.getMapState(name, codec.schema, more[0].schema), codec, more[0])
    return State(handle.getValueState(name, codec.schema), codec)


def _time(row: Row) -> datetime:
    time: datetime = row["_time"]
    return time


def _nothing(*_: Any, **__: Any) -> None: ...  # noqa: ANN401
