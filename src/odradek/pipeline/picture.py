"""The picture of an application as an SVG that needs nothing else, readable on light and dark paper.

Topics are pills, steps are boxes, steps with state stand out. The stripes on a box are the queries that run it: a step
above two trunks is run by both. Hovering shows the whole text and the line of code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Literal

from odradek.pipeline.layered import Box, Place, Route, arrange

Look = Literal["topic", "view", "dead", "step", "state"]

MARGIN = 36.0
HEAD = 64.0
LEGEND_ROW = 24.0
PAD = 14.0
STRIPE = 5.0
TITLE_WIDTH, TEXT_WIDTH, KIND_WIDTH = 7.9, 6.62, 7.7  # of one letter: monospace 13 and 11 px, capitals 9.5 px
LINE = 16.0
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
    """A topic or a step in the picture of an application."""

    key: str
    look: Look
    kind: str
    name: str
    lines: tuple[str, ...]
    hover: str
    queries: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    title: str
    subtitle: str
    shapes: tuple[Shape, ...]
    arrows: tuple[tuple[str, str], ...]  # keys of shapes
    failed: tuple[str, ...]  # shapes to which failed rows go
    legend: tuple[tuple[str, str], ...]  # the queries: name, and what runs them


def _width(shape: Shape) -> float:
    texts = [len(shape.kind) * KIND_WIDTH, *(len(line) * TEXT_WIDTH for line in shape.lines)]
    letters = max(len(shape.name) * TITLE_WIDTH, *texts, 90.0)
    return letters + 2 * PAD + (STRIPE if shape.queries else 0) + (8 if shape.look != "step" else 0)


def _height(shape: Shape) -> float:
    return 40.0 + LINE * len(shape.lines) + (6 if shape.lines else 0)


def svg(picture: Picture, *, inside_page: bool = False) -> str:
    """`inside_page`: without a style sheet and a title of its own, for a page that has both. All texts are escaped."""
    known = {shape.key for shape in picture.shapes}
    laid = arrange(
        [Box(key=shape.key, width=_width(shape), height=_height(shape)) for shape in picture.shapes],
        [arrow for arrow in picture.arrows if known.issuperset(arrow)],
    )
    head = 0.0 if inside_page else HEAD
    width = max(laid.width, 420.0) + 2 * MARGIN
    height = head + laid.height + 2 * MARGIN + LEGEND_ROW * len(picture.legend)
    look = ' class="picture"' if inside_page else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{escape(picture.title)}"'
        f"{look}>",
    ]
    if not inside_page:
        parts += [
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
            f'<text class="head" x="{MARGIN:.0f}" y="42">{escape(picture.title)}</text>',
            f'<text class="sub" x="{MARGIN:.0f}" y="62">{escape(picture.subtitle)}</text>',
        ]
    parts += [
        f'<g transform="translate({MARGIN:.0f} {head + MARGIN - 8:.0f})">',
        *(_arrow(route, failed=route.target in picture.failed) for route in laid.routes),
        *(_box(shape, laid.places[shape.key], number) for number, shape in enumerate(picture.shapes)),
        "</g>",
        *_legend(picture, head + MARGIN + laid.height + 26),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


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


def _legend(picture: Picture, y: float) -> Iterator[str]:
    for index, (name, about) in enumerate(picture.legend):
        yield f'<rect x="{MARGIN:.0f}" y="{y - 10:.0f}" width="12" height="12" rx="3" fill="{_colour(index)}"/>'
        yield (
            f'<text x="{MARGIN + 20:.0f}" y="{y:.0f}"><tspan class="name">{escape(name)}</tspan>'
            f'<tspan class="what" dx="10">{escape(about)}</tspan></text>'
        )
        y += LEGEND_ROW


def _colour(query: int) -> str:
    return QUERY_COLOURS[query % len(QUERY_COLOURS)]
