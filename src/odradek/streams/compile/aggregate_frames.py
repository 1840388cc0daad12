"""Aggregates as DataFrames: by group alone, and by group and window."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from odradek.pipeline.durations import interval
from odradek.streams.compile import state
from odradek.streams.graph.expressions import column_of
from odradek.streams.graph.nodes import Aggregate
from odradek.streams.graph.windows import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def aggregated(node: Aggregate, rows: DataFrame, grace: timedelta | None) -> DataFrame:
    columns = [column_of(value) for value in node.aggregates]
    names = rows.groupBy().agg(*columns).columns
    values = [column.alias(name) for column, name in zip(columns, names, strict=True)]
    if node.window is None:
        return _running(node.keys, values, rows)
    if node.window.kind == "sliding":
        return state.sliding(
            rows, node.keys, node.window.size, grace or timedelta(), dict(zip(names, values, strict=True))
        )
    return _windowed(node.keys, node.window, values, names, rows)


def _running(keys: tuple[str, ...], values: list[Column], rows: DataFrame) -> DataFrame:
    """A changelog: one row per group that changed; its time is that of the newest row in it."""
    totals = rows.groupBy(*keys).agg(*values, F.max("_time").alias("_time"))
    return totals.withColumns({"_key": _no_key(), "_deleted": F.lit(False)})


def _windowed(
    keys: tuple[str, ...], window: Window, values: list[Column], names: list[str], rows: DataFrame
) -> DataFrame:
    totals = rows.groupBy(_in_window(window).alias("_window"), *keys).agg(*values)
    return totals.select(
        *keys,
        F.col("_window.start").alias("window_start"),
        F.col("_window.end").alias("window_end"),
        *(f"`{name}`" for name in names),
        _no_key().alias("_key"),
        # the last moment of the window, and still event time to Spark: more windows and joins may follow
        F.window_time("_window").alias("_time"),
    )


def _in_window(window: Window) -> Column:
    if window.kind == "session":
        return F.session_window("_time", interval(window.size))
    if window.kind == "tumbling":
        return F.window("_time", interval(window.size))
    return F.window("_time", interval(window.size), interval(window.every))


def _no_key() -> Column:
    """Results have no record they came from; sinks make the key of their columns."""
    return F.lit(None).cast("binary")
