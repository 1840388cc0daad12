"""Joins as they are written: which join it is, and what must be said for Spark to be able to run it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from odradek.streams.checks import check_appends, check_time
from odradek.streams.durations import Duration, duration
from odradek.streams.errors import PipelineError
from odradek.streams.nodes import JoinKind, StaticJoin, StreamJoin, StreamTableJoin, TableTableJoin
from odradek.streams.rows import Names, keys_of, names, node_of

if TYPE_CHECKING:
    from odradek.streams.app import App
    from odradek.streams.stream import Stream
    from odradek.streams.table import Table

Within = Duration | tuple[Duration, Duration]
On = Names | Mapping[str, str] | None


def join_stream(
    app: App,
    left: Stream,
    right: Any,  # noqa: ANN401 a Stream, Table, Static or DataFrame: told apart here
    *,
    on: On,
    within: Within | None,
    how: JoinKind,
    suffix: str,
    name: str | None,
) -> Stream:
    from odradek.streams.stream import Stream
    from odradek.streams.table import Static, Table

    if isinstance(right, Stream):
        return _stream_stream(app, left, right, on=on, within=within, how=how, suffix=suffix, name=name)
    if within is not None:
        raise PipelineError(
            "within= is for a join of two streams",
            why="a table has one row per key and a DataFrame does not move: there is no second time to compare with",
            instead="the join without within=",
        )
    if isinstance(right, Table):
        return _stream_table(app, left, right, on=on, how=how, suffix=suffix, name=name)
    static = right if isinstance(right, Static) else app.static(right)
    _check_how("a stream and a DataFrame", how, ("inner", "left"))
    node = app.graph.add(
        StaticJoin, name, inputs=(node_of(left), static.node), on=_pairs(left, on), how=how, suffix=suffix
    )
    return Stream(app, node, keys_of(left))


def join_tables(app: App, left: Table, right: Table, *, on: On, how: JoinKind, suffix: str, name: str | None) -> Table:
    from odradek.streams.table import Table

    if not isinstance(right, Table):
        raise PipelineError(
            "a table can be joined with a table",
            why="rows of a stream look into a table, not the other way round",
            instead="stream.join(table, on=...)",
        )
    _check_how("two tables", how, ("inner", "left", "outer"))
    pairs = dict(zip(keys_of(left), keys_of(right), strict=False)) if on is None else _pairs(left, on)
    for side, table, columns in (("left", left, tuple(pairs)), ("right", right, tuple(pairs.values()))):
        if set(columns) != set(keys_of(table)):
            raise PipelineError(
                f"tables are joined by their keys: the {side} one's is {list(keys_of(table))}, not {list(columns)}",
                why="a change of one row must lead to one row on the other side",
                instead="on= with the keys of both, or a table with another key: .to_stream().group_by(...).agg(...)",
            )
        check_appends("a join of tables", node_of(table))
    node = app.graph.add(TableTableJoin, name, inputs=(node_of(left), node_of(right)), on=pairs, how=how, suffix=suffix)
    return Table(app, node, keys_of(left))


def _stream_stream(
    app: App,
    left: Stream,
    right: Stream,
    *,
    on: On,
    within: Within | None,
    how: JoinKind,
    suffix: str,
    name: str | None,
) -> Stream:
    from odradek.streams.stream import Stream

    shown = on if on is not None else "driverId"
    if within is None:
        raise PipelineError(
            "a join of two streams needs a bound of time",
            why="each row waits in state for rows of the other side; without a bound it would wait for ever",
            instead=f'.join(other, on={shown!r}, within="5 seconds"), or within=("1 second", "5 seconds") '
            "for up to 1 second before and 5 seconds after",
        )
    _check_how("two streams", how, ("inner", "left", "right", "outer"))
    for side in (left, right):
        check_appends("a join of streams", node_of(side))
        check_time("a join of streams", node_of(side))
    before, after = _bound(within)
    node = app.graph.add(
        StreamJoin,
        name,
        inputs=(node_of(left), node_of(right)),
        on=_pairs(left, on),
        how=how,
        before=before,
        after=after,
        suffix=suffix,
    )
    return Stream(app, node, keys_of(left))


def _stream_table(
    app: App, left: Stream, right: Table, *, on: On, how: JoinKind, suffix: str, name: str | None
) -> Stream:
    from odradek.streams.stream import Stream

    _check_how("a stream and a table", how, ("inner", "left"))
    pairs = dict(zip(keys_of(left), keys_of(right), strict=False)) if on is None else _pairs(left, on)
    if set(pairs.values()) != set(keys_of(right)):
        raise PipelineError(
            f"the table is keyed by {list(keys_of(right))}, the join looks for {list(pairs.values())}",
            why="a row finds the table's row by the table's key",
            instead="on={" + ", ".join(f'"your column": "{key}"' for key in keys_of(right)) + "}",
        )
    for side in (left, right):
        check_appends("a join with a table", node_of(side))
    node = app.graph.add(
        StreamTableJoin, name, inputs=(node_of(left), node_of(right)), on=pairs, how=how, suffix=suffix
    )
    return Stream(app, node, keys_of(left))


def _pairs(left: Stream | Table, on: On) -> dict[str, str]:
    """Column here -> column there."""
    if isinstance(on, Mapping):
        return dict(on)
    columns = names(on) if on is not None else keys_of(left)
    if not columns:
        raise PipelineError(
            "a join needs the columns that must be equal",
            instead='on="driverId", on=["driverId", "truckId"], or on={"driverId": "id"} where the names differ',
        )
    return {column: column for column in columns}


def _bound(within: Within) -> tuple[timedelta, timedelta]:
    if isinstance(within, tuple):
        before, after = within
        return duration(before), duration(after)
    return duration(within), duration(within)


def _check_how(what: str, how: str, allowed: tuple[str, ...]) -> None:
    if how not in allowed:
        raise PipelineError(f"a join of {what} cannot be {how!r}", instead=f"how= one of {', '.join(allowed)}")
