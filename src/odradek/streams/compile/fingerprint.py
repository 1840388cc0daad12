"""What the state of a query means, as lines of text: equal lines, and a new version of the code may go on with it.

Lines follow the rows, from the sources down to the trunk; of a query of the engine they are in the order of the names
of steps, so that a sink that is added moves none. Each stands for itself, so that two fingerprints can be laid
side by side. Steps without state leave no line, with one exception: where state keeps whole rows (joins, sliding
windows) it keeps them by position, so there the names of columns count, though not how they are computed. Lines of code
do not count, nor does the code of Python functions. Names of steps count where the engine runs them: it finds the state
of a step by its name.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from odradek.pipeline.durations import spoken
from odradek.pipeline.errors import Origin, PipelineError
from odradek.pipeline.formats.declared import Columns, columns_in, declared_columns
from odradek.streams.compile.state.parameters import halves, parameters
from odradek.streams.compile.topology.levels import delay, topology
from odradek.streams.graph.checks import streaming_inputs, waits_for_time
from odradek.streams.graph.columns import HEADERS
from odradek.streams.graph.expressions import ColumnLike, shown
from odradek.streams.graph.nodes import (
    Aggregate,
    Drop,
    Fold,
    Frame,
    MapPandas,
    MapRows,
    Node,
    Process,
    SchemaOf,
    Select,
    Sql,
    StaticJoin,
    StreamJoin,
    StreamTableJoin,
    TableTableJoin,
    Topic,
    WithColumns,
)
from odradek.streams.graph.planning import Query

_ALIAS = re.compile(r"(\s+as\s+`?\w+`?|\.alias\('\w+'\))$", re.IGNORECASE)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    origin: Origin  # of the step it is about


def fingerprint(query: Query) -> tuple[Line, ...]:
    trunk = query.trunk
    nodes = _in_order_of_names(query) if query.by_engine else list(query.steps)
    if not any(node.stateful for node in nodes):  # what it has read is all that it remembers
        return tuple(Line(source_text(node), node.origin) for node in nodes if isinstance(node, Topic | Frame))
    kept = {node for whole in _kept_whole(nodes) for node in _shaping(whole)}
    used = {word for node in nodes if node.stateful for text in _meaning(node) for word in re.findall(r"\w+", text)}
    lines = [Line(text, node.origin) for node in nodes for text in _lines(node, used, whole=node in kept)]
    if query.by_engine:
        return (*lines, *_places(query))
    if query.grace is not None:
        lines.append(Line(f"late rows: {spoken(query.grace)}", trunk.origin))
    return (*lines, Line(f"results: {query.emit}", trunk.origin))


def _in_order_of_names(query: Query) -> list[Node]:
    """The sources, then the steps with state, each after its inputs."""
    sources = sorted(query.sources, key=_by_name)
    steps = sorted((node for node in query.steps if node.stateful), key=_by_name)
    return list(dict.fromkeys([*sources, *(above for step in steps for above in step.ancestry())]))


def _by_name(node: Node) -> str:
    return node.name


def _places(query: Query) -> Iterator[Line]:
    """Where the engine keeps the state of each step, and which clock its timers use."""
    plan = topology(query.sinks)
    for node in sorted(query.steps, key=_by_name):
        if node.stateful:
            yield Line(f"{node.kind}: called {node.name}, level {plan.stage(plan.level[node])}", node.origin)
            if waits_for_time(node):
                grace = node.window.grace if isinstance(node, Aggregate) and node.window is not None else None
                late = max(map(delay, node.inputs)) if grace is None else grace
                yield Line(f"{node.kind}: late rows {spoken(late)}", node.origin)


def _lines(node: Node, used: set[str], *, whole: bool) -> Iterator[str]:
    if isinstance(node, Topic | Frame):
        source = source_text(node)
        yield source
        if node.time is not None:
            yield f"{source}: time {_text(node.time)}"
        for name, kind in _columns(node):
            if whole or name in used:
                yield f"{source}: {name} {kind}"
    elif node.stateful:
        yield f"{node.kind}: of {' with '.join(map(_fed_by, streaming_inputs(node)))}"
        for text in _meaning(node):
            yield f"{node.kind}: {text}"
    if whole and (names := _shape(node)):
        yield f"{node.kind}: columns {names}"


# --- steps with state


def _meaning(node: Node) -> Iterator[str]:
    """What a step with state keeps, for what, and how."""
    match node:
        case Aggregate():
            yield f"by {', '.join(node.keys)}" if node.keys else "all rows"
            if node.window is not None:
                yield f"over {replace(node.window, grace=None)}"  # its grace is in that of the query
            yield from (_ALIAS.sub("", _text(value)) for value in node.aggregates)
        case Fold():
            yield f"by {', '.join(node.keys)}"
            yield f"{'reduce' if node.reduces else 'aggregate'} with {_called(node.function)}"
            if not node.reduces:
                yield f"from {_value(node.initial)}"
            yield from (f"{name} {kind}" for name, kind in _columns(node))
        case Process():
            yield f"by {', '.join(node.keys)}"
            yield f"with {_called(node.function)}"
            yield from _states(node)
        case _:
            yield _text(node.summary)


def _states(node: Process) -> Iterator[str]:
    try:
        function, on_timer = halves(node.function, node.on_timer)
        found = [parameters(half) for half in (on_timer, function) if half is not None]
    except PipelineError as problem:
        problem.locate(node.origin)
        raise
    declared = {name: state for half in found for name, state in half.states.items()}
    for name, state in sorted(declared.items()):
        types = ", ".join(codec.schema["value"].dataType.simpleString() for codec in state.codecs)
        yield f"{name} {state.kind.__name__}[{types}]"
    if node.ttl is not None:
        yield f"ttl {spoken(node.ttl)}"
    if waits_for_time(node) or node.timers == "processing":
        yield f"timers {node.timers}"


def _fed_by(node: Node) -> str:
    """The sources and steps with state that rows come from, past those without."""
    if isinstance(node, Topic | Frame):
        return source_text(node)
    if node.stateful:
        return node.kind
    return " and ".join(dict.fromkeys(map(_fed_by, streaming_inputs(node))))


# --- columns


def _kept_whole(nodes: list[Node]) -> Iterator[Node]:
    """Inputs whose rows are in the state as they are."""
    for node in nodes:
        if isinstance(node, StreamJoin | TableTableJoin) or (
            isinstance(node, Aggregate) and node.window is not None and node.window.kind == "sliding"
        ):
            yield from node.inputs
        elif isinstance(node, StreamTableJoin):
            yield node.inputs[1]


def _shaping(node: Node) -> Iterator[Node]:
    """The nodes that determine the columns of this node, up to nodes whose columns do not depend on their input."""
    yield node
    if not isinstance(node, Select | MapRows | MapPandas | Aggregate | Fold | Process | Sql):
        for upstream in streaming_inputs(node):
            yield from _shaping(upstream)


def _shape(node: Node) -> str:
    match node:
        case Select():
            return ", ".join(_name(column) for column in node.columns)
        case WithColumns() | Drop():
            return ", ".join(node.columns)
        case MapRows() | MapPandas() | Process():
            return ", ".join(f"{name} {kind}" for name, kind in _columns(node))
        case StaticJoin():
            return node.summary
    return ""


def _columns(node: Node) -> Columns:
    """As declared; none where only Spark knows them."""
    match node:
        case Topic(schema=SchemaOf()):
            return ()
        case Topic():
            headers = ((HEADERS, "headers"),) if node.headers else ()
            topic = ((node.topic_as, "topic"),) if node.topic_as is not None else ()
            return (*declared_columns(node.schema, node.format), *headers, *topic)
        case Frame():
            return () if callable(node.frame) else columns_in(node.frame.schema)
        case Process():
            return declared_columns(node.out)
        case Fold() | MapRows() | MapPandas():
            return declared_columns(node.schema)
    return ()


def _name(column: ColumnLike) -> str:
    alias = _ALIAS.search(_text(column))
    return re.findall(r"\w+", alias[0])[-1] if alias else _text(column)


# --- texts


def source_text(node: Topic | Frame) -> str:
    """The line of a source."""
    if isinstance(node, Frame):
        return f"frame {_called(node.frame)}"
    table = f" as a table by {', '.join(node.table_key)}" if node.table_key else ""
    return f"{'topic ' if node.pattern is None else ''}{node.topic}{table}"


def _text(value: ColumnLike) -> str:
    text = value if isinstance(value, str) else shown(value)
    return " ".join(_ADDRESS.sub("", text).split())


def _value(value: Any) -> str:  # noqa: ANN401 whatever a fold begins with
    """The value as text, with its fields. Sets are sorted, so every process gives the same text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return _text(shown(value.model_dump() if hasattr(value, "model_dump") else value))


def _called(function: object) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))
