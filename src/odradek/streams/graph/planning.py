"""From sinks to queries.

Sinks that share a source or a step are one query of the engine, which reads each topic once. Where a step is Spark's
alone (SQL, a DataFrame from outside, `foreach_batch`, `explode`, an aggregate function that the engine does not know),
there is one query per trunk and output mode instead. A trunk is the deepest step with state (or several inputs) above a
sink, else its source; sinks with the same trunk share a query, and each micro-batch is handed to the steps below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from odradek.pipeline.errors import PipelineError
from odradek.streams.graph.checks import trunk_of, waits_for_time
from odradek.streams.graph.expressions import ColumnLike
from odradek.streams.graph.graph import Graph
from odradek.streams.graph.nodes import (
    Aggregate,
    Deduplicate,
    Emit,
    Frame,
    MapPandas,
    MapRows,
    Merge,
    Node,
    Process,
    Select,
    Sql,
    StaticFrame,
    StaticJoin,
    StreamJoin,
    Topic,
    WithColumns,
    text_of,
)
from odradek.streams.graph.sinks import (
    DeadLetters,
    ForeachBatch,
    ForeachRow,
    LakeTable,
    LateRows,
    Materialize,
    Sink,
    TopicSink,
)

FOREIGN = (Frame, StaticFrame, StaticJoin, Sql, ForeachBatch)
_FOREIGN_NAMES = """
    approx_count_distinct approx_percentile percentile_approx percentile percentile_cont percentile_disc median
    mode corr covar_pop covar_samp skewness kurtosis histogram_numeric bit_and bit_or bit_xor product listagg
    string_agg try_sum try_avg collect_union approx_top_k approx_top_k_accumulate approx_top_k_combine
    count_min_sketch hll_sketch_agg hll_union_agg bitmap_construct_agg bitmap_or_agg bitmap_and_agg grouping
    grouping_id measure regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kll_merge_agg_bigint kll_merge_agg_double
    kll_merge_agg_float theta_sketch_agg theta_union_agg theta_intersection_agg tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer tuple_intersection_agg_double
    tuple_intersection_agg_integer
"""
FOREIGN_AGGREGATES = frozenset(_FOREIGN_NAMES.split())
_GENERATOR_NAMES = "explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple"
GENERATORS = frozenset(_GENERATOR_NAMES.split())
"""Functions that make any number of rows of one."""
_CALL = re.compile(r"(\w+)\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One Spark query: `name` is that of its checkpoint and, after the application's, of its consumer group."""

    name: str
    trunk: Node  # of the engine's: the first source
    emit: Emit
    sinks: tuple[Sink, ...]
    foreign: Node | None = None  # the step for which the engine does not run the query; None: it does

    @property
    def by_engine(self) -> bool:
        return self.foreign is None

    @property
    def steps(self) -> tuple[Node, ...]:
        """What the query itself runs, inputs first: all of it, or down to the trunk."""
        if not self.by_engine:
            return tuple(self.trunk.ancestry())
        nodes = dict.fromkeys(node for sink in self.sinks for node in sink.ancestry())
        return tuple(node for node in nodes if not isinstance(node, Sink))

    @property
    def sources(self) -> tuple[Topic, ...]:
        return tuple(node for node in self.steps if isinstance(node, Topic))

    @property
    def reads(self) -> frozenset[str]:
        """The topics by name, and patterns in words."""
        return frozenset(name for node in self.sources for name in (node.topics or (node.topic,)))

    def takes_from(self, topics: Iterable[str]) -> bool:
        """Whether it reads one of these topics."""
        return any(source.reads(topic) for topic in topics for source in self.sources)

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(filter(None, map(written_topic, self.sinks)))

    @property
    def calls_python(self) -> bool:
        """Whether rows may fail after they were parsed, so that the record behind each must stay at hand."""
        return any(isinstance(node, MapRows | Process | ForeachRow) for sink in self.sinks for node in sink.ancestry())

    @property
    def follows_the_clock(self) -> bool:
        """Whether timers fire in processing time. Then Spark runs micro-batches even without new rows."""
        return any(isinstance(node, Process) and node.timers == "processing" for node in self.steps)

    @property
    def grace(self) -> timedelta | None:
        """How late rows may come; None: nothing here waits for time."""
        return max((_own_grace(node) for node in self.steps if waits_for_time(node)), default=None)


def plan(graph: Graph, *, state_on_disk: bool = True) -> tuple[Query, ...]:
    """The queries of a graph, in the order in which topics flow from one into the other.

    The engine keeps state in files that all executors reach. Where only Spark can reach the state directory, as in an
    object store, queries with state are Spark's.
    """
    if not state_on_disk:
        _check_no_table(graph)
    queries: dict[str, Query] = {}
    for sinks in _connected(graph.sinks):
        foreign = foreign_step(sinks) or (None if state_on_disk else _stateful_step(sinks))
        if foreign is not None:
            _check_sinks_of_spark(sinks, foreign)
        made = [_whole(sinks, graph)] if foreign is None else _by_trunk(sinks, foreign)
        for query in made:
            if query.name in queries:
                raise _two_of_a_name(queries[query.name], query)
            _check_no_circle(query)
            queries[query.name] = query
    return in_order_of_flow(queries.values())


def _check_no_table(graph: Graph) -> None:
    for sink in graph.sinks:
        if isinstance(sink, LakeTable):
            raise PipelineError(
                f"{sink.name} needs a state directory that is a path",
                why="rows for a table are collected in files there. Only Spark can read the present directory",
                instead="state_dir= with a directory that driver and executors share, or\n"
                ".to(topic), and from that topic to the table with the connector lake",
                origin=sink.origin,
            )


def _check_sinks_of_spark(sinks: Iterable[Sink], foreign: Node) -> None:
    """`foreign`: the step that the engine cannot run."""
    for sink in sinks:
        if isinstance(sink, LateRows):
            raise PipelineError(
                f"a row that comes too late for {sink.inputs[0].name} cannot be given",
                why=f"Spark's own operators run the query, because of {foreign.name} at {foreign.origin}, and drop it",
                instead='the step without late_to=, or a topic between the two: .through("some-topic")',
                origin=sink.origin,
            )


def _check_no_circle(query: Query) -> None:
    """A pattern must not take what the query writes itself: each record would come back for ever."""
    for source in query.sources:
        for topic in sorted(query.writes):
            if source.pattern is not None and source.reads(topic):
                raise PipelineError(
                    f"the pattern {source.pattern!r} also matches {topic!r}, which this query writes",
                    why="the query would read its own records again and again",
                    instead="a pattern that does not match it, or another name for the topic that is written",
                    origin=source.origin,
                )


def _connected(sinks: Iterable[Sink]) -> list[list[Sink]]:
    """Sinks in groups that have no node in common, in the order in which they were written."""
    ordered = list(sinks)
    groups: list[tuple[set[Node], list[Sink]]] = []
    for sink in ordered:
        nodes, members = set(sink.ancestry()), [sink]
        for group in [group for group in groups if group[0] & nodes]:
            groups.remove(group)
            nodes |= group[0]
            members += group[1]
        groups.append((nodes, sorted(members, key=ordered.index)))
    return [members for _, members in groups]


def _whole(sinks: list[Sink], graph: Graph) -> Query:
    """Its name is that of the stream that is declared first: a sink that is added must not change it."""
    nodes = {node for sink in sinks for node in sink.ancestry()}
    sources = [topic for topic in graph.topics if topic in nodes]
    first = next((source for source in sources if not source.table_key), sources[0])
    return Query(name=first.name, trunk=first, emit="final", sinks=tuple(sinks))


def _by_trunk(sinks: list[Sink], foreign: Node) -> list[Query]:
    by_trunk: dict[tuple[Node, Emit], list[Sink]] = {}
    for sink in sinks:
        by_trunk.setdefault((trunk_of(sink), sink.emit or "final"), []).append(sink)
    return [
        Query(name=_name(trunk, emit), trunk=trunk, emit=emit, sinks=tuple(sinks), foreign=foreign)
        for (trunk, emit), sinks in by_trunk.items()
    ]


def _stateful_step(sinks: Iterable[Sink]) -> Node | None:
    return next((node for sink in sinks for node in sink.ancestry() if node.stateful), None)


def foreign_step(sinks: Iterable[Sink]) -> Node | None:
    """The first step that the engine cannot run."""
    for sink in sinks:
        for node in sink.ancestry():
            if isinstance(node, FOREIGN) or foreign_calls(node):
                return node
            if isinstance(node, MapRows | MapPandas) and isinstance(trunk_of(node.inputs[0]), Merge):
                return node  # the lanes of a merge may end at different levels, where a map has none
    return None


def foreign_calls(node: Node) -> frozenset[str]:
    """The functions of a step that only Spark has."""
    match node:
        case Aggregate():
            return called(node.aggregates) & FOREIGN_AGGREGATES
        case Select():
            return called(node.columns) & GENERATORS
        case WithColumns():
            return called(node.columns.values()) & GENERATORS
    return frozenset()


def called(columns: Iterable[ColumnLike]) -> frozenset[str]:
    """The functions that columns name, also those around other functions."""
    return frozenset(name.lower() for column in columns for name in _CALL.findall(text_of(column)))


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
            if not any(query.takes_from(other.writes) for other in waiting if other is not query):
                break
        else:
            query = waiting[0]
        waiting.remove(query)
        ordered.append(query)
    return tuple(ordered)


def written_topic(sink: Sink) -> str | None:
    return sink.topic if isinstance(sink, TopicSink | Materialize | DeadLetters | LateRows) else None


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
