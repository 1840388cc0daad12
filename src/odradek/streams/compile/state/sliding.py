"""Aggregates over record-aligned sliding windows, each given once, when it is final.

A window is final when the watermark reaches its end. A row that is later than the watermark still counts in those of
its windows that are open when its micro-batch begins. State per key is the rows of the last `size`, each once; which
windows they make is worked out when windows close, and Spark's own aggregates do the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from odradek.pipeline.durations import interval
from odradek.streams.compile.event_time import MILLISECOND, has_watermark, moment, without_watermark
from odradek.streams.compile.state.carriage import Carriage, quoted
from odradek.streams.compile.state.output import Output
from odradek.streams.engine.steps.alignment import forgettable, next_end, windows

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        ListState,
        StatefulProcessorHandle,
        TimerValues,
        ValueState,
    )

WINDOW = ("window_start", "window_end")


def sliding(
    rows: DataFrame, keys: Sequence[str], size: timedelta, grace: timedelta, aggregates: Mapping[str, Column]
) -> DataFrame:
    """A row per key and window: the keys, `window_start`, `window_end`, the aggregates, `_time` (the window's end).

    `grace` is how far the watermark stays behind, unless the rows have a watermark already. Windows are cut to
    milliseconds, which is what records have.
    """
    if not has_watermark(rows):
        rows = rows.withWatermark("_time", interval(grace))
    # Spark would drop late rows before they reach the windows that are still open
    rows = without_watermark(rows).drop("_record")
    by = Carriage([rows.schema[key] for key in keys], "k")
    carried = Carriage([f for f in rows.schema if f.name not in keys], "v")
    at, *ends = (T.StructField(n, t) for n, t in (("at", T.LongType()), *((n, T.TimestampType()) for n in WINDOW)))
    packed = rows.select(*by.pack(), F.unix_millis("_time").alias("at"), *carried.pack())
    members = packed.groupBy(*by.schema.names).transformWithState(
        _Windows(by.schema.names, T.StructType([at, *carried.schema]), size // MILLISECOND),
        outputStructType=T.StructType([*by.schema, *ends, *carried.schema]),
        outputMode="Append",
        timeMode="EventTime",
        eventTimeColumnName="window_end",
    )
    named = members.select(*by.unpack(), *WINDOW, *carried.unpack())
    totals = named.groupBy(*[quoted(key) for key in keys], *WINDOW).agg(
        *[aggregate.alias(name) for name, aggregate in aggregates.items()]
    )
    return totals.select("*", F.lit(None).cast("binary").alias("_key"), F.col("window_end").alias("_time"))


class _Windows(StatefulProcessor):
    def __init__(self, keys: list[str], columns: T.StructType, size_ms: int) -> None:
        self._keys, self._columns, self._size = keys, columns, size_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._rows: ListState = handle.getListState("rows", self._columns)
        self._closed: ValueState = handle.getValueState("closed", "through long, timer long")

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[Any, ...],
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Output]:
        now = timerValues.getCurrentWatermarkInMs()
        new = [tuple(row[name] for name in self._columns.names) for row in rows]
        yield from self._close(key, now, new)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: tuple[Any, ...],
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Output]:
        yield from self._close(key, timerValues.getCurrentWatermarkInMs(), [])

    def _close(self, key: tuple[Any, ...], now: int, new: list[tuple[Any, ...]]) -> Iterator[Output]:
        """Windows that ended by `now` go out with the rows there were; then the new rows come in."""
        rows = sorted(self._rows.get(), key=_time)
        closed, timer = self._closed.get() or (now, None)
        times = [_time(row) for row in rows]
        for window in windows(times, self._size, after=closed, through=now):
            for row in rows[window.first : window.beyond]:
                yield self._member(key, window.start, window.end, row)
        kept = rows[forgettable(times, self._size, closed=now) :]
        kept = sorted(kept + [row for row in new if _time(row) >= now - self._size], key=_time)
        self._save(kept, appended=new if len(kept) == len(rows) + len(new) else None)
        self._wait(kept, now, timer)

    def _save(self, kept: list[tuple[Any, ...]], appended: list[tuple[Any, ...]] | None) -> None:
        if not kept:
            self._rows.clear()
        elif appended is None:
            self._rows.put(kept)
        elif appended:
            self._rows.appendList(appended)

    def _wait(self, kept: list[tuple[Any, ...]], now: int, timer: int | None) -> None:
        end = next_end([_time(row) for row in kept], self._size, after=now)
        if end is None:
            self._rows.clear()
            self._closed.clear()
            return
        if timer is None or timer <= now or end < timer:
            self._handle.registerTimer(end)
            timer = end
        self._closed.update((now, timer))

    def _member(self, key: tuple[Any, ...], start: int, end: int, row: tuple[Any, ...]) -> Output:
        return Output(
            zip(self._keys, key, strict=True),
            window_start=moment(start),
            window_end=moment(end),
            **dict(zip(self._columns.names[1:], row[1:], strict=True)),
        )

    def close(self) -> None: ...


def _time(row: tuple[Any, ...]) -> int:
    time: int = row[0]
    return time
