"""An application as text: its queries, and in each the steps from topics to sinks, with their lines of code."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from odradek.pipeline.durations import spoken
from odradek.pipeline.layout import Layout
from odradek.streams.graph.application import Application
from odradek.streams.graph.micro_batches import why_by_micro_batch, why_foreign
from odradek.streams.graph.nodes import Aggregate, Node, StreamJoin
from odradek.streams.graph.planning import Query, grace_of
from odradek.streams.graph.repeats import guarantee
from odradek.streams.graph.settings import Settings
from odradek.streams.graph.sinks import Materialize, Sink


def describe(app: Application) -> str:
    layout = Layout(app.settings.state_dir, app.name)
    queries = app.queries()
    heads = [
        f"Application: {app.name}",
        f"  topics on {app.settings.bootstrap}, state in {layout.checkpoint('').rstrip('/')}",
    ]
    if not queries:
        heads.append("  nothing to run: no stream or table ends in a sink")
    parts = [_query(query, number, layout, app.settings) for number, query in enumerate(queries)]
    return "\n\n".join(["\n".join(heads), *parts])


def steps_of(query: Query) -> list[Node]:
    """All that a query runs, inputs first."""
    return list(dict.fromkeys(node for sink in query.sinks for node in sink.ancestry()))


def promise(sink: Sink) -> str:
    """What a reader of the results may count on."""
    grace = grace_of(sink)
    late = "" if grace is None else f"; late rows are accepted for {spoken(grace)}"
    return f"{_results(sink)}{late}"


def _results(sink: Sink) -> str:
    above = list(sink.ancestry())
    if sink.emit == "updates":
        return "each change of a result, at most one per key and micro-batch"
    if any(isinstance(node, Aggregate) and node.window is not None for node in above):
        return "final results"
    if any(isinstance(node, StreamJoin) and node.how != "inner" for node in above):
        return "each row as it comes, one without a partner when none can come any more"
    return "each row as it comes"


def runs_on(query: Query) -> str:
    if query.foreign is None:
        return "runs on the engine"
    return f"runs on Spark's own operators, because of {query.foreign.name}: {why_foreign(query.foreign)}"


def unwrapped(text: str) -> str:
    """Without a pair of brackets around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if index == len(text) - 1 else text
    return text


def as_data(app: Application) -> dict[str, object]:
    """The same for programs."""
    layout = Layout(app.settings.state_dir, app.name)
    queries = app.queries()
    return {
        "application": app.name,
        "bootstrap": app.settings.bootstrap,
        "queries": [
            {
                "name": query.name,
                "group": layout.group(query.name),
                "checkpoint": layout.checkpoint(query.name),
                "by_engine": query.by_engine,
                "foreign_step": None if query.foreign is None else query.foreign.name,
                "why_foreign": None if query.foreign is None else why_foreign(query.foreign),
                "reads": sorted(query.reads),
                "writes": sorted(query.writes),
                "steps": [node.name for node in steps_of(query)],
            }
            for query in queries
        ],
        "steps": [
            {
                "name": node.name,
                "kind": node.kind,
                "what": node.summary,
                "inputs": [upstream.name for upstream in node.inputs],
                "stateful": node.stateful,
                "promise": promise(node) if isinstance(node, Sink) else None,
                "guarantee": guarantee(node, app.settings) if isinstance(node, Sink) else None,
                "by_micro_batch": _mark(node, queries),
                "origin": str(node.origin),
            }
            for node in app.graph.nodes
        ],
    }


def _query(query: Query, number: int, layout: Layout, settings: Settings) -> str:
    steps = steps_of(query)
    lines = [f"Query {number}: {query.name}", f"  {runs_on(query)}; group {layout.group(query.name)}"]
    for node in steps:
        after = [other.name for other in steps if node in other.inputs]
        lines.append(f"  {_role(node)}: {node.name}{' [state]' if node.stateful else ''}  ({_place(node)})")
        lines += textwrap.wrap(unwrapped(node.summary), 110, initial_indent="      ", subsequent_indent="      ")
        if isinstance(node, Sink):
            lines.append(f"      {promise(node)}")
            lines.append(f"      {guarantee(node, settings)}")
        if (why := why_by_micro_batch(node, by_engine=query.by_engine)) is not None:
            lines.append(f"    ! results may depend on micro-batches: {why}")
        if node.inputs:
            lines.append(f"    <-- {', '.join(upstream.name for upstream in node.inputs)}")
        if after:
            lines.append(f"    --> {', '.join(after)}")
    return "\n".join(lines)


def _mark(node: Node, queries: Sequence[Query]) -> str | None:
    """All queries that run a step are the engine's, or none is."""
    query = next((query for query in queries if node in steps_of(query)), None)
    return None if query is None else why_by_micro_batch(node, by_engine=query.by_engine)


def _role(node: Node) -> str:
    if isinstance(node, Sink):
        return "View" if isinstance(node, Materialize) else "Sink"
    return "Step" if node.inputs else "Source"


def _place(node: Node) -> str:
    return f"{Path(node.origin.file).name}:{node.origin.line}"
