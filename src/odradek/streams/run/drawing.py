"""An application as a picture: an SVG that needs nothing else, readable on light and dark paper.

Topics are pills, steps are boxes, steps with state stand out. The stripes on a box are the queries that run it: a step
above two trunks is run by both. Hovering shows the whole text and the line of code.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from odradek.pipeline.layout import Layout
from odradek.streams.graph.application import Application
from odradek.streams.graph.expressions import shown
from odradek.streams.graph.nodes import Aggregate, Node, Topic
from odradek.streams.graph.planning import Query
from odradek.streams.graph.sinks import DeadLetters, LateRows, Materialize, TopicSink
from odradek.streams.run.describe import runs_on, steps_of, unwrapped
from odradek.streams.run.layered import Arrangement, Box, Place, Route, arrange

Look = Literal["topic", "view", "dead", "step", "state"]

MARGIN = 36.0
HEAD = 64.0
LEGEND_ROW = 24.0
PAD = 14.0
STRIPE = 5.0
TITLE_WIDTH, TEXT_WIDTH, KIND_WIDTH = 7.9, 6.62, 7.7  # of one letter: monospace 13 and 11 px, capitals 9.5 px
LINE = 16.0
CHARS = 30
LINES_MAX = 3
QUERY_COLOURS = ("#4c7be0", "#e08a2c", "#2fa37c", "#b566c9", "#d4556a", "#5d8fa8", "#9c8a2e", "#7a6ff0")

_SANS = 'system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif'
_MONO = 'ui-monospace,"SF Mono","Cascadia Mono","DejaVu Sans Mono",Menlo,Consolas,monospace'
STYLE = f"""
svg {{ --paper:#fbfaf8; --ink:#1c2230; --soft:#5f6779; --line:#a9b1c0; --edge:#d9dde5;
  --step:#ffffff; --state:#fff6e3; --state-edge:#e3b75f; --topic:#edf3fe; --topic-edge:#a9c1ee;
  --view:#eaf7ef; --view-edge:#8fcaa6; --dead:#fdeeee; --dead-edge:#e6abab }}
@media (prefers-color-scheme: dark) {{
  svg {{ --paper:#14171d; --ink:#e8ebf1; --soft:#a0a9ba; --line:#657084; --edge:#3a4252;
    --step:#1d222b; --state:#2c2616; --state-edge:#8d713a; --topic:#18243c; --topic-edge:#3f5f9d;
    --view:#162a20; --view-edge:#3f7d5a; --dead:#311d1f; --dead-edge:#8a4a4e }} }}
.paper {{ fill:var(--paper) }}
text {{ fill:var(--ink); font:11px {_MONO} }}
.head {{ font:600 20px {_SANS} }}
.sub {{ font:12.5px {_SANS}; fill:var(--soft) }}
.name {{ font-size:13px; font-weight:600 }}
.kind {{ font:9.5px {_SANS}; fill:var(--soft); letter-spacing:.09em }}
.what {{ fill:var(--soft) }}
.box {{ stroke-width:1.2; fill:var(--step); stroke:var(--edge) }}
.state .box {{ fill:var(--state); stroke:var(--state-edge) }}
.topic .box {{ fill:var(--topic); stroke:var(--topic-edge) }}
.view .box {{ fill:var(--view); stroke:var(--view-edge) }}
.dead .box {{ fill:var(--dead); stroke:var(--dead-edge) }}
.arrow {{ fill:none; stroke:var(--line); stroke-width:1.5 }}
.tip {{ fill:var(--line) }}
.failed {{ stroke:var(--dead-edge); stroke-dasharray:4 4 }}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    key: str
    look: Look
    kind: str
    name: str
    lines: tuple[str, ...]
    hover: str
    queries: tuple[int, ...]

    @property
    def width(self) -> float:
        texts = [len(self.kind) * KIND_WIDTH, *(len(line) * TEXT_WIDTH for line in self.lines)]
        letters = max(len(self.name) * TITLE_WIDTH, *texts, 90.0)
        return letters + 2 * PAD + (STRIPE if self.queries else 0) + (8 if self.look != "step" else 0)

    @property
    def height(self) -> float:
        return 40.0 + LINE * len(self.lines) + (6 if self.lines else 0)


def draw(app: Application) -> str:
    queries = app.queries()
    shapes = _shapes(app, queries)
    laid = arrange(
        [Box(key=shape.key, width=shape.width, height=shape.height) for shape in shapes],
        [(_key(upstream), _key(node)) for node in _shown(app, queries) for upstream in node.inputs],
    )
    failed = {_key(node) for node in app.graph.nodes if isinstance(node, DeadLetters | LateRows)}
    width = max(laid.width, 420.0) + 2 * MARGIN
    height = HEAD + laid.height + 2 * MARGIN + LEGEND_ROW * len(queries)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(app.name)}">',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="head" x="{MARGIN:.0f}" y="42">{escape(app.name)}</text>',
        f'<text class="sub" x="{MARGIN:.0f}" y="62">{len(queries)} quer{"y" if len(queries) == 1 else "ies"}, '
        f"{_reads_and_writes(queries)}</text>",
        f'<g transform="translate({MARGIN:.0f} {HEAD + MARGIN - 8:.0f})">',
        *(_arrow(route, failed=route.target in failed) for route in laid.routes),
        *(_box(shape, laid.places[shape.key], number) for number, shape in enumerate(shapes)),
        "</g>",
        *_legend(app, queries, laid),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


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


def _box(shape: Shape, place: Place, number: int) -> str:
    x, y, width, height = place.x, place.y, place.width, place.height
    radius = 8.0 if shape.look in ("step", "state") else min(height / 2, 20.0)
    left = x + PAD + (STRIPE if shape.queries else 0) + (4 if shape.look not in ("step", "state") else 0)
    outline = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.0f}"'
    parts = [f'<g class="{shape.look}"><title>{escape(shape.hover)}</title><rect class="box" {outline}/>']
    if shape.queries:
        parts.append(f'<clipPath id="box-{number}"><rect {outline}/></clipPath>')
        part = height / len(shape.queries)
        parts += [
            f'<rect clip-path="url(#box-{number})" x="{x:.1f}" y="{y + index * part:.1f}" width="{STRIPE:.0f}" '
            f'height="{part:.1f}" fill="{_colour(query)}"/>'
            for index, query in enumerate(shape.queries)
        ]
    parts.append(f'<text class="kind" x="{left:.1f}" y="{y + 16:.1f}">{escape(shape.kind)}</text>')
    parts.append(f'<text class="name" x="{left:.1f}" y="{y + 32:.1f}">{escape(shape.name)}</text>')
    parts += [
        f'<text class="what" x="{left:.1f}" y="{y + 50 + index * LINE:.1f}">{escape(line)}</text>'
        for index, line in enumerate(shape.lines)
    ]
    return "".join([*parts, "</g>"])


def _arrow(route: Route, *, failed: bool) -> str:
    (x, y), *rest = route.points
    path = [f"M{x:.1f} {y:.1f}"]
    end_x, end_y = rest[-1]
    tip = 7.0 if end_x > x else -7.0
    for next_x, next_y in [*rest[:-1], (end_x - tip, end_y)]:
        bend = (next_x - x) / 2
        path.append(f"C{x + bend:.1f} {y:.1f} {next_x - bend:.1f} {next_y:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    return (
        f'<path class="arrow{" failed" if failed else ""}" d="{" ".join(path)}"/>'
        f'<path class="tip" d="M{end_x:.1f} {end_y:.1f} l{-tip:.1f} -4 v8 z"/>'
    )


def _legend(app: Application, queries: Sequence[Query], laid: Arrangement) -> Iterator[str]:
    layout = Layout(app.settings.state_dir, app.name)
    y = HEAD + MARGIN + laid.height + 26
    for index, query in enumerate(queries):
        yield f'<rect x="{MARGIN:.0f}" y="{y - 10:.0f}" width="12" height="12" rx="3" fill="{_colour(index)}"/>'
        about = f"{runs_on(query)} · group {layout.group(query.name)}"
        yield (
            f'<text x="{MARGIN + 20:.0f}" y="{y:.0f}"><tspan class="name">{escape(query.name)}</tspan>'
            f'<tspan class="what" dx="10">{escape(about)}</tspan></text>'
        )
        y += LEGEND_ROW


def _reads_and_writes(queries: Sequence[Query]) -> str:
    reads = set().union(*(query.reads for query in queries))
    writes = set().union(*(query.writes for query in queries))
    return f"{len(reads)} topics read, {len(writes)} written"


def _colour(query: int) -> str:
    return QUERY_COLOURS[query % len(QUERY_COLOURS)]
