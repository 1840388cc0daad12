"""Joins as DataFrames.

Of columns that both sides have, the right one's get the suffix; the columns joined on come once, from the left (of an
outer join, from whichever side is there). The event time of a pair is the left row's, of a right join the right row's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, cast

from pyspark.sql import functions as F

from odradek.pipeline.durations import interval
from odradek.streams.compile import state
from odradek.streams.compile.event_time import as_marked
from odradek.streams.graph.column_names import joined_names
from odradek.streams.graph.nodes import StaticJoin, StreamJoin, StreamTableJoin, TableTableJoin

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_THEIRS = "__right_"


def join_streams(node: StreamJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    left, right = left.drop("_record"), right.drop("_record")
    names = joined_names(left.columns, right.columns, node.on, node.suffix)
    theirs = _apart(right)
    time, their_time = F.col("_time"), F.col(f"{_THEIRS}_time")
    near = their_time.between(
        time - F.expr(f"interval {interval(node.before)}"), time + F.expr(f"interval {interval(node.after)}")
    )
    joined = left.join(theirs, _equal(node.on) & near, {"outer": "full"}.get(node.how, node.how))
    columns = (F.col(f"`{_THEIRS}{name}`").alias(as_) for name, as_ in names.items())
    return as_marked(joined.select(*_left_columns(node, left), *columns), left)


def join_static(node: StaticJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    names = joined_names(left.columns, right.columns, node.on, node.suffix)
    joined = left.join(_apart(right), _equal(node.on), node.how)
    columns = (F.col(f"`{_THEIRS}{name}`").alias(as_) for name, as_ in names.items())
    return joined.select(*(F.col(f"`{name}`") for name in left.columns), *columns)


def look_up(node: StreamTableJoin, rows: DataFrame, table: DataFrame) -> DataFrame:
    table = _renamed(table.drop("_record"), joined_names(rows.columns, table.columns, node.on, node.suffix))
    return state.stream_table_join(rows.drop("_record"), table, node.on, "left" if node.how == "left" else "inner")


def join_tables(node: TableTableJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    right = _renamed(right.drop("_record"), joined_names(left.columns, right.columns, node.on, node.suffix))
    how = cast("Literal['inner', 'left', 'outer']", node.how)  # join_verbs.py refuses the others
    return state.table_table_join(left.drop("_record"), right, node.on, how)


def _left_columns(node: StreamJoin, left: DataFrame) -> list[Column]:
    """Keys, time and record key are the right row's where there is no left row."""
    if node.how in ("inner", "left"):
        return [F.col(f"`{name}`") for name in left.columns]
    theirs = {**node.on, "_key": "_key", "_time": "_time"}
    return [_of_either(node, name, theirs[name]) if name in theirs else F.col(f"`{name}`") for name in left.columns]


def _of_either(node: StreamJoin, mine: str, their: str) -> Column:
    right = F.col(f"`{_THEIRS}{their}`")
    if node.how == "right" and mine != "_key":
        return right.alias(mine)
    return F.coalesce(F.col(f"`{mine}`"), right).alias(mine)


def _apart(right: DataFrame) -> DataFrame:
    """Every column under a name that the left side cannot have, so that a stream may be joined with itself."""
    return right.select(*(F.col(f"`{name}`").alias(_THEIRS + name) for name in right.columns))


def _equal(on: Mapping[str, str]) -> Column:
    mine, *more = (F.col(f"`{left}`") == F.col(f"`{_THEIRS}{right}`") for left, right in on.items())
    for other in more:
        mine = mine & other
    return mine


def _renamed(frame: DataFrame, names: Mapping[str, str]) -> DataFrame:
    return frame.withColumnsRenamed({name: as_ for name, as_ in names.items() if name != as_})
