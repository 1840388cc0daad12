"""Joins as they are written: which join it is, and what must be said for Spark to be able to run it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from odradek.pipeline.durations import Duration, duration
from odradek.pipeline.errors import PipelineError
from odradek.streams.api.rows import Names, Rows, keys_of, names, node_of
from odradek.streams.graph.checks import check_appends, check_time
from odradek.streams.graph.graph import Graph
from odradek.streams.graph.nodes import JoinKind, Node, StaticJoin, StreamJoin, StreamTableJoin, TableTableJoin

Within = Duration | tuple[Duration, Duration]
On = Names | Mapping[str, str] | None


def join_streams(
    graph: Graph,
    left: Rows,
    right: Rows,
    *,
    on: On,
    within: Within | None,
    how: JoinKind,
    suffix: str,
    name: str | None,
) -> Node:
    shown = f"on={_shown(on)}" if on is not None else _suggested(graph, left, right)
    if within is None:
        raise PipelineError(
            "a join of two streams needs a bound of time",
            why="each row waits in state for rows of the other side; without a bound it would wait for ever",
            instead=f'.join(other, {shown}, within="5 seconds"), or within=("1 second", "5 seconds") '
            "for up to 1 second before and 5 seconds after",
        )
    _check_how("two streams", how, ("inner", "left", "right", "outer"))
    for side in (left, right):
        check_appends("a join of streams", node_of(side))
        check_time("a join of streams", node_of(side))
    before, after = _bound(within)
    return graph.add(
        StreamJoin,
        name,
        inputs=(node_of(left), node_of(right)),
        on=_pairs(graph, left, right, on),
        how=how,
        before=before,
        after=after,
        suffix=suffix,
    )


def check_no_bound(within: Within | None) -> None:
    if within is not None:
        raise PipelineError(
            "within= is for a join of two streams",
            why="a table has one row per key and a DataFrame does not move: there is no second time to compare with",
            instead="the join without within=",
        )


def check_never_late(late_to: str | None) -> None:
    if late_to is not None:
        raise PipelineError(
            "late_to= where no row comes too late",
            why="only windows, joins of two streams, deduplicate, and process with timers or a ttl wait for event time",
            instead="the step without late_to=",
        )


def join_table(
    graph: Graph, left: Rows, right: Rows, *, on: On, how: JoinKind, suffix: str, as_of: bool, name: str | None
) -> Node:
    """Joins a stream with a table: each row of the stream looks up a row of the table."""
    _check_how("a stream and a table", how, ("inner", "left"))
    pairs = _pairs_by_key(graph, left, right, on)
    if set(pairs.values()) != set(keys_of(right)):
        raise PipelineError(
            f"the table is keyed by {list(keys_of(right))}, the join looks for {list(pairs.values())}",
            why="a row finds the table's row by the table's key",
            instead="on={" + ", ".join(f'"your column": "{key}"' for key in keys_of(right)) + "}",
        )
    for side in (left, right):
        check_appends("a join with a table", node_of(side))
    inputs = (node_of(left), node_of(right))
    return graph.add(StreamTableJoin, name, inputs=inputs, on=pairs, how=how, suffix=suffix, as_of=as_of)


def join_static(
    graph: Graph, left: Rows, static: Node, *, on: On, how: JoinKind, suffix: str, name: str | None
) -> Node:
    _check_how("a stream and a DataFrame", how, ("inner", "left"))
    pairs = _pairs(graph, left, None, on)
    return graph.add(StaticJoin, name, inputs=(node_of(left), static), on=pairs, how=how, suffix=suffix)


def join_tables(graph: Graph, left: Rows, right: Rows, *, on: On, how: JoinKind, suffix: str, name: str | None) -> Node:
    _check_how("two tables", how, ("inner", "left", "outer"))
    pairs = _pairs_by_key(graph, left, right, on)
    for side, table, columns in (("left", left, tuple(pairs)), ("right", right, tuple(pairs.values()))):
        if set(columns) != set(keys_of(table)):
            raise PipelineError(
                f"tables are joined by their keys: the {side} one's is {list(keys_of(table))}, not {list(columns)}",
                why="a change of one row must lead to one row on the other side",
                instead="on= with the keys of both, or a table with another key: .to_stream().group_by(...).agg(...)",
            )
        check_appends("a join of tables", node_of(table))
    return graph.add(TableTableJoin, name, inputs=(node_of(left), node_of(right)), on=pairs, how=how, suffix=suffix)


def _pairs_by_key(graph: Graph, left: Rows, table: Rows, on: On) -> dict[str, str]:
    """Without `on`, the keys of both."""
    if on is None and keys_of(left):
        return dict(zip(keys_of(left), keys_of(table), strict=False))
    return _pairs(graph, left, table, on)


def _pairs(graph: Graph, left: Rows, right: Rows | None, on: On) -> dict[str, str]:
    """Column here -> column there."""
    if isinstance(on, Mapping):
        return dict(on)
    columns = names(on) if on is not None else keys_of(left)
    if not columns:
        raise PipelineError(
            "a join needs the columns that must be equal",
            instead=f'{_suggested(graph, left, right)}; a list for several, {{"mine": "theirs"}} where names differ',
        )
    return {column: column for column in columns}


def _suggested(graph: Graph, left: Rows, right: Rows | None) -> str:
    """`on=` with the user's own columns, as far as they are known: the key of the right side, a column of both."""
    mine = graph.columns_of(node_of(left)) or keys_of(left) or ("driverId",)
    theirs = () if right is None else keys_of(right) or graph.columns_of(node_of(right)) or ()
    both = [name for name in theirs if name in mine]
    if both or not theirs:
        return f'on="{both[0] if both else mine[0]}"'
    return f'on={{"{mine[0]}": "{theirs[0]}"}}'


def _shown(on: Names | Mapping[str, str]) -> str:
    return f'"{on}"' if isinstance(on, str) else repr(on)


def _bound(within: Within) -> tuple[timedelta, timedelta]:
    if isinstance(within, tuple):
        before, after = within
        return duration(before), duration(after)
    return duration(within), duration(within)


def _check_how(what: str, how: str, allowed: tuple[str, ...]) -> None:
    if how not in allowed:
        raise PipelineError(f"a join of {what} cannot be {how!r}", instead=f"how= one of {', '.join(allowed)}")
