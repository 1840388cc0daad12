"""What the picture of an application shows: its topics and steps, and which queries run them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from odradek.pipeline.layout import Layout
from odradek.pipeline.picture import Look, Picture, Shape, svg
from odradek.streams.graph.application import Application
from odradek.streams.graph.expressions import shown
from odradek.streams.graph.nodes import Aggregate, Node, Topic
from odradek.streams.graph.planning import Query
from odradek.streams.graph.sinks import DeadLetters, LakeTable, LateRows, Materialize, TopicSink
from odradek.streams.run.describe import runs_on, steps_of, unwrapped

CHARS = 30
LINES_MAX = 3


def draw(app: Application) -> str:
    return svg(pictured(app))


def pictured(app: Application) -> Picture:
    """What the picture shows, before it is laid out."""
    queries = app.queries()
    layout = Layout(app.settings.state_dir, app.name)
    failed = dict.fromkeys(_key(node) for node in app.graph.nodes if isinstance(node, DeadLetters | LateRows))
    return Picture(
        title=app.name,
        subtitle=f"{len(queries)} quer{'y' if len(queries) == 1 else 'ies'}, {_reads_and_writes(queries)}",
        shapes=tuple(_shapes(app, queries)),
        arrows=tuple((_key(upstream), _key(node)) for node in _shown(app, queries) for upstream in node.inputs),
        failed=tuple(failed),
        legend=tuple((query.name, f"{runs_on(query)} · group {layout.group(query.name)}") for query in queries),
    )


def _shown(app: Application, queries: Sequence[Query]) -> list[Node]:
    """What some query runs; a step that leads to no sink is never run."""
    run = {node for query in queries for node in steps_of(query)}
    return [node for node in app.graph.nodes if node in run]


def _key(node: Node) -> str:
    """A topic that is written and read is one pill, wherever it is named."""
    match node:
        case Topic() | TopicSink() | Materialize() | DeadLetters() | LateRows():
            return f"topic {node.topic}"
    return f"step {node.name}"


def _shapes(app: Application, queries: Sequence[Query]) -> list[Shape]:
    shapes: dict[str, Shape] = {}
    for node in _shown(app, queries):
        shape = _shape(node, tuple(index for index, query in enumerate(queries) if node in steps_of(query)))
        known = shapes.get(shape.key)
        if known is None or known.look == "topic":  # a view or dead letters say more than a topic
            shapes[shape.key] = shape
    return list(shapes.values())


def _shape(node: Node, queries: tuple[int, ...]) -> Shape:
    look, kind, name, texts = _words(node)
    is_step = look in ("step", "state")
    return Shape(
        key=_key(node),
        look=look,
        kind=f"{kind} · STATE" if look == "state" else kind,
        name=_cut(name, CHARS),
        lines=tuple(line for text in texts for line in _wrapped(text)),
        hover=f"{node.name}: {node.summary}\n{node.origin}\n{node.origin.code}",
        queries=queries if is_step else (),
    )


def _words(node: Node) -> tuple[Look, str, str, Sequence[str]]:
    match node:
        case Materialize():
            return "view", "VIEW", node.view, [f"by {', '.join(node.key)}"]
        case DeadLetters():
            return "dead", "DEAD LETTERS", node.topic, []
        case LateRows():
            return "dead", "LATE ROWS", node.topic, []
        case LakeTable():
            return "view", "TABLE IN FILES", node.path, [", ".join([node.format, *node.partition_by])]
        case Topic():
            by = [f"by {', '.join(node.table_key)}"] if node.table_key else []
            return "topic", "TABLE" if by else "TOPIC", node.topic, [", ".join([str(node.format), *by])]
        case TopicSink():
            by = [f"by {', '.join(node.key)}"] if node.key else []
            return "topic", "TOPIC", node.topic, [", ".join([str(node.format), *by])]
        case Aggregate():
            by = [f"by {', '.join(node.keys)}" if node.keys else "all rows"]
            over = [f"over {node.window}"] if node.window else []
            results = [shown(result).rpartition(" as ")[2] for result in node.aggregates]
            return "state", "AGGREGATE", node.name, [*by, *over, f"→ {', '.join(results)}"]
    kind = node.kind.replace("_", " ").upper()
    return "state" if node.stateful else "step", kind, node.name, [unwrapped(node.summary)]


def _wrapped(text: str) -> list[str]:
    lines = textwrap.wrap(text, CHARS, break_on_hyphens=False)
    if len(lines) <= LINES_MAX:
        return lines
    return [*lines[: LINES_MAX - 1], _cut(" ".join(lines[LINES_MAX - 1 :]), CHARS)]


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1] + "…"


def _reads_and_writes(queries: Sequence[Query]) -> str:
    reads = set().union(*(query.reads for query in queries))
    writes = set().union(*(query.writes for query in queries))
    return f"{len(reads)} {'topic' if len(reads) == 1 else 'topics'} read, {len(writes)} written"
