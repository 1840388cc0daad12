"""Charts as SVG, made on the server. Colours come from the style sheet, by class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeVar

from markupsafe import Markup

from odradek.console.collecting.history import Point

T = TypeVar("T")
Place = tuple[float, float] | None

SPARK_WIDTH, SPARK_HEIGHT = 120, 32
WIDTH, HEIGHT = 1200, 210
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 10, 24
GRID_LINES = 4
POINTS_MAX = 240
HEADROOM = 1.08


def sparkline(values: Sequence[float], label: str, tone: str = "accent") -> Markup:
    """A small line without axes. NaN is a gap."""
    known = [value for value in values if not math.isnan(value)]
    if len(known) < 2:
        return Markup('<svg class="spark" aria-hidden="true" viewBox="0 0 {} {}"></svg>').format(
            SPARK_WIDTH, SPARK_HEIGHT
        )
    values = thinned(values, SPARK_WIDTH)
    top = max(*known, 1e-9) * HEADROOM
    step = SPARK_WIDTH / max(len(values) - 1, 1)
    places = [
        None if math.isnan(value) else (index * step, SPARK_HEIGHT - 2 - value / top * (SPARK_HEIGHT - 4))
        for index, value in enumerate(values)
    ]
    return Markup(
        '<svg class="spark {}" role="img" aria-label="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
    ).format(tone, label, SPARK_WIDTH, SPARK_HEIGHT, _runs(places, SPARK_HEIGHT))


def meter(share: float | None, label: str, tone: str = "accent") -> Markup:
    """A horizontal bar that is filled to this share."""
    if share is None:
        return Markup("")
    return Markup(
        '<svg class="meter {}" role="img" aria-label="{}" viewBox="0 0 100 6" preserveAspectRatio="none">'
        '<rect class="track" width="100" height="6"/><rect class="fill" width="{:.1f}" height="6"/></svg>'
    ).format(tone, label, min(max(share, 0.0), 1.0) * 100)


def chart(lines: Sequence[tuple[str, Sequence[Point]]], label: str, unit: str = "") -> Markup:
    """Lines over time with axes; the first of `lines` is filled."""
    points = [point for _, line in lines for point in line if not math.isnan(point.value)]
    if len(points) < 2:
        return Markup("")
    first, last = min(point.at_ms for point in points), max(point.at_ms for point in points)
    top = nice(max(*(point.value for point in points), 1e-9) * HEADROOM)
    drawn = Markup("").join(
        Markup('<g class="line line-{}"><title>{}</title>{}</g>').format(
            number % 6,
            name,
            _runs(list(_placed(thinned(line, POINTS_MAX), first, last, top)), HEIGHT - BOTTOM, fill=number == 0),
        )
        for number, (name, line) in enumerate(lines)
    )
    return Markup('<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {} {}">{}{}{}</svg>').format(
        label, WIDTH, HEIGHT, _grid(top, unit), _times(first, last), drawn
    )


def thinned(values: Sequence[T], most: int) -> Sequence[T]:
    if len(values) <= most:
        return values
    step = len(values) / most
    return [values[int(index * step)] for index in range(most - 1)] + [values[-1]]


def nice(value: float) -> float:
    """The next of 1, 2, 2.5, 5 or 10, times a power of ten."""
    power = 10 ** math.floor(math.log10(value))
    return float(next(step for step in (1, 2, 2.5, 5, 10) if step * power >= value * (1 - 1e-9)) * power)


def _placed(line: Sequence[Point], first: int, last: int, top: float) -> Iterator[Place]:
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    for point in line:
        if math.isnan(point.value):
            yield None
        else:
            yield LEFT + (point.at_ms - first) / max(last - first, 1) * wide, TOP + high - point.value / top * high


def _runs(places: Sequence[Place], floor: float, *, fill: bool = True) -> Markup:
    """Lines between gaps, each with the area below it."""
    drawn = []
    run: list[tuple[float, float]] = []
    for place in [*places, None]:
        if place is not None:
            run.append(place)
        elif run:
            line = " L".join(f"{x:.1f},{y:.1f}" for x, y in run)
            area = f"M{run[0][0]:.1f},{floor:.1f} L{line} L{run[-1][0]:.1f},{floor:.1f} Z"
            drawn.append(Markup('<path class="area" d="{}"/>').format(area) if fill else Markup(""))
            drawn.append(Markup('<path class="stroke" d="M{}"/>').format(line))
            run = []
    return Markup("").join(drawn)


def _grid(top: float, unit: str) -> Markup:
    high = HEIGHT - TOP - BOTTOM
    rows = []
    for number in range(GRID_LINES + 1):
        value, y = top * number / GRID_LINES, TOP + high - high * number / GRID_LINES
        rows.append(
            Markup(
                '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/><text x="{}" y="{:.1f}">{}</text>'
            ).format(LEFT, WIDTH - RIGHT, y, y, LEFT - 8, y + 4, f"{_tick(value)}{unit}")
        )
    return Markup('<g class="axis">{}</g>').format(Markup("").join(rows))


def _tick(value: float) -> str:
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"


def _times(first: int, last: int) -> Markup:
    """How long ago, at both ends and in the middle."""
    marks = (
        (LEFT, last - first, "start"),
        ((LEFT + WIDTH - RIGHT) / 2, (last - first) / 2, "middle"),
        (WIDTH - RIGHT, 0, "end"),
    )
    return Markup("").join(
        Markup('<text class="time" x="{:.0f}" y="{}" text-anchor="{}">{}</text>').format(
            x, HEIGHT - 6, anchor, _ago(ago_ms / 1000)
        )
        for x, ago_ms, anchor in marks
    )


def _ago(seconds: float) -> str:
    if seconds < 1:
        return "now"
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"
