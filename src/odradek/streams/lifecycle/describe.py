"""An application as text: its queries, and in each the steps from topics to sinks, with their lines of code."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.streams.durations import spoken
from odradek.streams.lifecycle.layout import Layout
from odradek.streams.nodes import Node
from odradek.streams.planning import Query
from odradek.streams.sinks import Materialize, Sink

if TYPE_CHECKING:
    from odradek.streams.app import App


def describe(app: App) -> str:
    layout = Layout(app.settings.state_dir, app.name)
    queries = app.queries()
    heads = [
        f"Application: {app.name}",
        f"  topics on {app.settings.bootstrap}, state in {layout.checkpoint('').rstrip('/')}",
    ]
    if not queries:
        heads.append("  nothing to run: no stream or table ends in a sink")
    parts = [_query(query, number, layout) for number, query in enumerate(queries)]
    return "\n\n".join(["\n".join(heads), *parts])


def steps_of(query: Query) -> list[Node]:
    """All that a query runs, inputs first."""
    return list(dict.fromkeys(node for sink in query.sinks for node in sink.ancestry()))


def promise(query: Query) -> str:
    """What a reader of the results may count on."""
    if query.grace is None:
        return "each change of a result" if query.emit == "updates" else "each row as it comes"
    results = "each change of a result" if query.emit == "updates" else "final results"
    return f"{results}, rows may be {spoken(query.grace)} late"


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


def as_data(app: App) -> dict[str, object]:
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
                "trunk": query.trunk.name,
                "emit": query.emit,
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
                "origin": str(node.origin),
            }
            for node in app.graph.nodes
        ],
    }


def _query(query: Query, number: int, layout: Layout) -> str:
    steps = steps_of(query)
    lines = [f"Query {number}: {query.name}", f"  {promise(query)}; group {layout.group(query.name)}"]
    for node in steps:
        after = [other.name for other in steps if node in other.inputs]
        lines.append(f"  {_role(node)}: {node.name}{' [state]' if node.stateful else ''}  ({_place(node)})")
        lines += textwrap.wrap(unwrapped(node.summary), 110, initial_indent="      ", subsequent_indent="      ")
        if node.inputs:
            lines.append(f"    <-- {', '.join(upstream.name for upstream in node.inputs)}")
        if after:
            lines.append(f"    --> {', '.join(after)}")
    return "\n".join(lines)


def _role(node: Node) -> str:
    if isinstance(node, Sink):
        return "View" if isinstance(node, Materialize) else "Sink"
    return "Step" if node.inputs else "Source"


def _place(node: Node) -> str:
    return f"{Path(node.origin.file).name}:{node.origin.line}"
