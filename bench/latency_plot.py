"""A drawing of latency over time: a line for each output topic, the median of every five seconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

PERIOD_MS = 5_000
SHOWN_S = 300
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 900, 420, 60, 30, 90
COLOURS = ("#2a7f62", "#3a6ea5", "#b5493a", "#c9a0dc", "#d08c2f")
Y_MIN, Y_MAX = 0.1, 100.0


def svg(periods: Mapping[str, Mapping[int, list[float]]], title: str) -> str:
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="18" text-anchor="middle">{title}</text>',
        *_grid(),
    ]
    for number, (name, values) in enumerate(periods.items()):
        colour = COLOURS[number % len(COLOURS)]
        medians = {n: statistics.median(seconds) for n, seconds in sorted(values.items()) if n * 5 < SHOWN_S}
        points = " ".join(f"{_x((n + 0.5) * PERIOD_MS / 1000):.1f},{_y(value):.1f}" for n, value in medians.items())
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        x, y = LEFT + 270 * (number % 3), HEIGHT - 35 + 18 * (number // 3)
        out.append(f'<rect x="{x}" y="{y - 9}" width="14" height="4" fill="{colour}"/>')
        out.append(f'<text x="{x + 20}" y="{y - 3}">{name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def _grid() -> list[str]:
    out = []
    for seconds in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100):
        y = _y(seconds)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{seconds:g} s</text>')
    for minute in range(SHOWN_S // 60 + 1):
        x = _x(minute * 60)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{minute} min</text>')
    return out


def _x(seconds: float) -> float:
    return LEFT + (WIDTH - 20 - LEFT) * seconds / SHOWN_S


def _y(seconds: float) -> float:
    share = math.log(min(max(seconds, Y_MIN), Y_MAX) / Y_MIN) / math.log(Y_MAX / Y_MIN)
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
