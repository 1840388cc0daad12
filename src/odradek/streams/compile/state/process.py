"""A Python function per key with state and timers.

- Rows of a key come in the order of their times within a micro-batch. One call gets all rows of its key, or with
  `dead_letters` one row, so that what a row fails at is that row's failure and leaves no trace in the state.
- With a watermark on `_time` the clock of timers and `ttl` is event time, rows later than the watermark are dropped,
  and the result keeps the watermark. `timers="processing"` uses wall-clock time; event time then ends here.
- `ttl`: all state of a key is gone once a row, or the watermark, is so much later than the newest row before.
- A result has the time and `_key` of the row read last; out of a timer, the timer's time and no `_key`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from odradek.pipeline.durations import Duration, duration
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.formats.schemas import Schema, struct_of
from odradek.streams.compile.event_time import MILLISECOND, has_watermark
from odradek.streams.compile.python_rows import ERROR
from odradek.streams.compile.state.parameters import Parameters, halves, parameters
from odradek.streams.compile.state.processor import Clock, Function, Plan, Processor
from odradek.streams.compile.state.values import nullable_struct


def process(
    rows: DataFrame,
    keys: Sequence[str],
    function: Function | Any,  # noqa: ANN401 or a class, or an object of one, with on_rows and perhaps on_timer
    out: Schema,
    *,
    on_timer: Function | None = None,
    ttl: Duration | None = None,
    timers: Clock = "event",
    dead_letters: bool = False,
) -> DataFrame:
    """What `function(key, rows, ...)` and `on_timer(key, time, ...)` yield: rows of `out`, `_key` and `_time`.

    Their further parameters are annotated State[T], ListState[T], MapState[K, V] or Timers; those of one name are the
    same state. `key` is a tuple if there are several. With `dead_letters` the result also has failed rows, with
    `_error` and the `_record` they came with.
    """
    if not dead_letters:
        rows = rows.drop("_record")
    timed = has_watermark(rows) and timers == "event"
    plan = checked_plan(
        rows.schema,
        keys,
        function,
        out,
        on_timer=on_timer,
        ttl=ttl,
        timers=timers,
        dead_letters=dead_letters,
        timed=timed,
    )
    carried = [T.StructField("_time", T.TimestampType())]
    carried += [rows.schema[name] for name in ("_key", "_record") if name in rows.columns]
    if dead_letters:
        carried.append(T.StructField("_error", ERROR))
    return rows.groupBy(*[F.col(f"`{key}`") for key in keys]).transformWithState(
        Processor(plan),
        outputStructType=nullable_struct(T.StructType([*struct_of(out), *carried])),
        outputMode="Append",
        timeMode="ProcessingTime" if timers == "processing" else "EventTime" if timed else "None",
        eventTimeColumnName="_time" if timed else "",
    )


def checked_plan(
    schema: T.StructType,
    keys: Sequence[str],
    function: Function | Any,  # noqa: ANN401 see process
    out: Schema,
    *,
    on_timer: Function | None,
    ttl: Duration | None,
    timers: Clock,
    dead_letters: bool,
    timed: bool,
) -> Plan:
    function, on_timer = halves(function, on_timer)
    plan = Plan(
        keys=tuple(keys),
        function=function,
        on_timer=on_timer,
        parameters=parameters(function),
        timer_parameters=parameters(on_timer) if on_timer else Parameters(),
        schema=schema,
        out=struct_of(out),
        ttl_ms=None if ttl is None else duration(ttl) // MILLISECOND,
        clock=timers,
        dead_letters=dead_letters,
    )
    _check(plan, timed)
    return plan


def _check(plan: Plan, timed: bool) -> None:
    if plan.ttl_ms is not None and plan.uses_timers:
        raise PipelineError(
            "a function with timers cannot have a ttl",
            why="both would be Spark timers of the same key, and Spark does not say which of them fired",
            instead="a timer that calls clear() on the state",
        )
    if plan.parameters.timers and plan.on_timer is None:
        raise PipelineError("timers are set, but nothing happens when one fires", instead="on_timer=function")
    for name, kind in plan.timer_parameters.states.items():
        if plan.parameters.states.get(name, kind) != kind:
            raise PipelineError(f"state {name} is of one type for rows and of another for timers")
    if (plan.uses_timers or plan.ttl_ms is not None) and plan.clock == "event" and not timed:
        raise PipelineError(
            "timers and ttl need a watermark or processing time",
            why="without a watermark there is no event time that could reach the timer",
            instead='.withWatermark("_time", ...) before, or timers="processing"',
        )
