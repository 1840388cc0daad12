"""The columns of each step, as far as declarations tell, and the refusal of names that are not among them.

Needs no Spark: a misspelt column is refused on the line that says it. Where nothing is declared (SQL text, a DataFrame
from outside) the columns are None, which is "not known", and Spark is the one to judge.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odradek.pipeline.errors import PipelineError
from odradek.streams.graph.columns import CARRIED, HEADERS, WINDOW_COLUMNS
from odradek.streams.graph.expressions import ColumnLike, named_columns
from odradek.streams.graph.nodes import (
    Aggregate,
    Deduplicate,
    Drop,
    Filter,
    Fold,
    MapPandas,
    MapRows,
    Merge,
    Node,
    Process,
    Rekey,
    SchemaOf,
    Select,
    StaticJoin,
    StreamJoin,
    StreamTableJoin,
    TableTableJoin,
    Topic,
    ToStream,
    WithColumns,
    text_of,
)
from odradek.streams.graph.sinks import LakeTable, Materialize, TopicSink

Columns = tuple[str, ...] | None

NEAR_MAX = 5
_ALIAS = re.compile(r"(?:\sas\s+`?(\w+)`?|\.alias\('(\w+)'\))$", re.IGNORECASE)


def columns_after(node: Node, known: Mapping[Node, Columns]) -> Columns:
    """The user's columns of a step; `known`: those of the steps above."""
    above = [known.get(upstream) for upstream in node.inputs]
    match node:
        case Topic():
            return _of_topic(node, known)
        case MapRows() | MapPandas():
            return _declared(node.schema)
        case Process():
            return _declared(node.out)
        case Fold():
            made = _declared(node.schema)
            return None if made is None else tuple(dict.fromkeys((*node.keys, *made)))
        case Filter() | Deduplicate() | Rekey() | ToStream() | Merge():
            return above[0]
        case Select():
            return _given(node.columns)
        case WithColumns():
            return None if above[0] is None else tuple(dict.fromkeys((*above[0], *node.columns)))
        case Drop():
            return None if above[0] is None else tuple(name for name in above[0] if name not in node.columns)
        case Aggregate():
            made = _given(node.aggregates)
            window = () if node.window is None else WINDOW_COLUMNS
            return None if made is None else (*node.keys, *window, *made)
        case StreamJoin() | StreamTableJoin() | TableTableJoin():
            left, right = above
            if left is None or right is None:
                return None
            return (*left, *joined_names(left, right, node.on, node.suffix).values())
    return None


def joined_names(left: Sequence[str], right: Sequence[str], on: Mapping[str, str], suffix: str) -> dict[str, str]:
    """The right side's columns in the result of a join: name there -> name here."""
    wanted = [name for name in right if name not in (*CARRIED, *on.values())]
    return {name: name + suffix if name in left else name for name in wanted}


def key_columns(node: Node) -> tuple[tuple[str, ...], ...]:
    """The columns that a step needs by name, for each input."""
    match node:
        case Aggregate() | Fold() | Process():
            return (node.keys,)
        case Rekey() | TopicSink() | Materialize():
            return (node.key,)
        case LakeTable():
            return (node.partition_by,)
        case Deduplicate():
            return (node.on,)
        case StreamJoin() | StreamTableJoin() | TableTableJoin():
            return tuple(node.on), tuple(node.on.values())
        case StaticJoin():
            return (tuple(node.on),)
    return ()


def check_columns(node: Node, known: Mapping[Node, Columns]) -> None:
    """Refuses a step that names a column which its inputs do not have."""
    for side, upstream in enumerate(node.inputs):
        if (columns := known.get(upstream)) is not None:
            check_keys(node, side, columns)
    first = known.get(node.inputs[0]) if node.inputs else None
    if first is None:
        return
    there = {name.lower() for name in (*first, *CARRIED, *_made_beside(node))}
    for value in expressions_of(node):
        for name in sorted(named_columns(value)):
            if name.lower() not in there and name.partition(".")[0].lower() not in there:
                raise _no_column(node, 0, name, first)


def check_keys(node: Node, side: int, columns: Iterable[str]) -> None:
    """Checks that the key columns of a step exist, with exact case. Spark itself ignores case."""
    wanted = key_columns(node)
    there = (*columns, *(CARRIED if isinstance(node, Rekey | Aggregate | Fold | Process | StaticJoin) else ()))
    if isinstance(node, Aggregate | StaticJoin):
        there = (*there, *(name for key in wanted for name in key if name.lower() in {one.lower() for one in there}))
    for name in wanted[side] if side < len(wanted) else ():
        if name not in there:
            raise _no_column(node, side, name, tuple(columns))


def _no_column(node: Node, side: int, name: str, columns: Sequence[str]) -> PipelineError:
    if name == HEADERS and any(isinstance(above, Topic) for above in node.ancestry()):
        return PipelineError(
            "the headers of records are not read here",
            why="a stream has the column `headers` only if its source asks for it",
            instead="app.stream(..., headers=True)",
            origin=node.origin,
        )
    where = f" in {node.inputs[side].name}" if len(node.inputs) > 1 else ""
    near = sorted(columns, key=lambda one: -difflib.SequenceMatcher(None, one.lower(), name.lower()).ratio())
    instead = 'one of these, a step before that adds it, or lit("text") for a value that is text'
    if isinstance(node, TopicSink | Materialize) and name in node.key:
        instead = f'key="one of these", or {name} among the columns of the step before: out= of process, select'
    elif key_columns(node):
        instead = "one of these, or a step before that adds it"
    return PipelineError(
        f"there is no column {name}{where}",
        why=f"close to it there are {', '.join(near[:NEAR_MAX])}",
        instead=instead,
        origin=node.origin,
    )


def expressions_of(node: Node) -> tuple[ColumnLike, ...]:
    """The columns that a step computes."""
    match node:
        case Filter():
            return (node.condition,)
        case Select():
            return node.columns
        case WithColumns():
            return tuple(node.columns.values())
        case Aggregate():
            return node.aggregates
        case TopicSink() if isinstance(node.headers, Mapping):
            return tuple(node.headers.values())
        case TopicSink() if node.headers is not None:
            return (node.headers,)
    return ()


def _made_beside(node: Node) -> Iterable[str]:
    """An expression may name a column that another one of the same step makes."""
    if isinstance(node, WithColumns):
        return node.columns
    return [name for value in expressions_of(node) if (name := _alias(value)) is not None]


def _of_topic(node: Topic, known: Mapping[Node, Columns]) -> Columns:
    if isinstance(node.schema, SchemaOf):
        return known.get(node.schema.node)
    plain = str(node.format) in ("raw", "text")
    declared = _declared(None if plain else node.schema, node.format)
    added = [name for name in (HEADERS if node.headers else None, node.topic_as) if name is not None]
    return None if declared is None else (*declared, *added)


def _declared(schema: Any, format: Any = None) -> Columns:  # noqa: A002, ANN401 whatever formats take
    """None for a schema that cannot be read: it is refused elsewhere, with what is wrong with it."""
    from odradek.pipeline.formats.declared import declared_columns

    with contextlib.suppress(PipelineError, ImportError, OSError, ValueError, TypeError):
        return tuple(name for name, _ in declared_columns(schema, format))
    return None


def _given(columns: Iterable[ColumnLike]) -> Columns:
    names = [_name(column) for column in columns]
    return None if None in names else tuple(name for name in names if name is not None and name not in CARRIED)


def _name(value: ColumnLike) -> str | None:
    """That of the column that an expression gives, if its text shows it."""
    text = text_of(value).strip()
    return _alias(value) or (text if re.fullmatch(r"[A-Za-z_]\w*", text) else None)


def _alias(value: ColumnLike) -> str | None:
    found = _ALIAS.search(text_of(value).strip())
    return None if found is None else found[1] or found[2]
