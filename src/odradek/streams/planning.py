"""From sinks to queries: one Spark query per trunk and output mode.

A trunk is the deepest step with state (or several inputs) above a sink, else its source. Sinks with the same trunk
share a query: it runs the trunk once, and each micro-batch is handed to the steps below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from odradek.streams.checks import trunk_of, waits_for_time
from odradek.streams.errors import PipelineError
from odradek.streams.graph import Graph
from odradek.streams.nodes import (
    Aggregate,
    Deduplicate,
    Emit,
    Frame,
    MapRows,
    Node,
    Process,
    StaticFrame,
    StreamJoin,
    Topic,
)
from odradek.streams.sinks import DeadLetters, Materialize, Sink, TopicSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One Spark query: `name` is that of its checkpoint and, after the application's, of its consumer group."""

    name: str
    trunk: Node
    emit: Emit
    sinks: tuple[Sink, ...]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(node.topic for node in self.trunk.ancestry() if isinstance(node, Topic))

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(filter(None, map(written_topic, self.sinks)))

    @property
    def calls_python(self) -> bool:
        """Whether rows may fail after they were parsed, so that the record behind each must stay at hand."""
        return any(isinstance(node, MapRows | Process) for sink in self.sinks for node in sink.ancestry())

    @property
    def follows_the_clock(self) -> bool:
        """Whether timers fire by the clock of the wall: then Spark goes on without new rows."""
        return any(isinstance(node, Process) and node.timers == "processing" for node in self.trunk.ancestry())

    @property
    def grace(self) -> timedelta | None:
        """How late rows may come; None: nothing here waits for time."""
        return grace_of(self.trunk)


def plan(graph: Graph) -> tuple[Query, ...]:
    """The queries of a graph, in the order in which topics flow from one into the other."""
    by_trunk: dict[tuple[Node, Emit], list[Sink]] = {}
    for sink in graph.sinks:
        by_trunk.setdefault((trunk_of(sink), sink.emit or "final"), []).append(sink)
    queries: dict[str, Query] = {}
    for (trunk, emit), sinks in by_trunk.items():
        query = Query(name=_name(trunk, emit), trunk=trunk, emit=emit, sinks=tuple(sinks))
        if query.name in queries:
            raise _two_of_a_name(queries[query.name], query)
        queries[query.name] = query
    return in_order_of_flow(queries.values())


def _two_of_a_name(first: Query, second: Query) -> PipelineError:
    return PipelineError(
        f"two queries would be called {first.name}",
        why=f"one is of {first.trunk.name} at {first.trunk.origin}; the running results of a step have its name and "
        "'-updates', and a name stands for one checkpoint",
        instead="another name= for one of the two",
        origin=second.trunk.origin,
    )


def in_order_of_flow(queries: Iterable[Query]) -> tuple[Query, ...]:
    """Writers of a topic before its readers, as far as there is no circle; else as written."""
    waiting, ordered = list(queries), []
    while waiting:
        for query in waiting:
            if not any(other.writes & query.reads for other in waiting if other is not query):
                break
        else:
            query = waiting[0]
        waiting.remove(query)
        ordered.append(query)
    return tuple(ordered)


def written_topic(sink: Sink) -> str | None:
    return sink.topic if isinstance(sink, TopicSink | Materialize | DeadLetters) else None


def grace_of(trunk: Node) -> timedelta | None:
    """The longest that any step waits for late rows: its own grace, else what the streams say about lateness."""
    return max((_own_grace(node) for node in trunk.ancestry() if waits_for_time(node)), default=None)


def _own_grace(node: Node) -> timedelta:
    if isinstance(node, Aggregate) and node.window is not None and node.window.grace is not None:
        return node.window.grace
    streams = (
        source
        for source in node.ancestry()
        if isinstance(source, Frame) or (isinstance(source, Topic) and not source.table_key)
    )
    late = max((stream.late for stream in streams), default=timedelta())
    return max(late, node.within) if isinstance(node, Deduplicate) else late


def lateness_of(node: Node) -> timedelta:
    """How far behind the newest a row may come out of this node: a join gives a row as late as its other side comes."""
    match node:
        case Topic() | Frame():
            return node.late
        case StreamJoin():
            return max(map(lateness_of, node.inputs)) + max(node.before, node.after)
        case StaticFrame():
            return timedelta()
    return max(map(lateness_of, node.inputs))


def _name(trunk: Node, emit: Emit) -> str:
    return f"{trunk.name}-updates" if emit == "updates" else trunk.name
