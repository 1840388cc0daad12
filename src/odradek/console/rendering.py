"""Templates: Jinja2 with autoescaping, and the forms in which pages show numbers, sizes and times.

Names and payloads come from strangers. Nothing is ever marked as safe HTML, except the SVG of `charts`.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from odradek import __version__
from odradek.console import charts
from odradek.console.words import counted, plural

if TYPE_CHECKING:
    from odradek.console.frame import Console

UNKNOWN = "\N{EN DASH}"
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("", "k", "M", "G", "T", "P")
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


class Templates:
    def __init__(self, console: Console) -> None:
        self._environment = Environment(
            loader=PackageLoader("odradek.console", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            count=count,
            counted=counted,
            plural=plural,
            short=short,
            size=size,
            per_second=per_second,
            duration=duration,
            share=share,
            clock=clock,
        )
        self._environment.globals.update(
            to=console.to,
            asset=lambda name: f"{console.settings.prefix}/static/{name}?{__version__}",
            sparkline=charts.sparkline,
            chart=charts.chart,
            meter=charts.meter,
            version=__version__,
            settings=console.settings,
        )

    def render(self, template: str, **model: object) -> str:
        return self._environment.get_template(template).render(**model)


def count(value: float | None) -> str:
    """With separators: 12,345."""
    return UNKNOWN if value is None or math.isnan(value) else f"{value:,.0f}"


def short(value: float | None) -> str:
    """Three digits: 12.3k."""
    return UNKNOWN if value is None or math.isnan(value) else _scaled(value, 1000, _DECIMAL).replace(" ", "")


def per_second(value: float | None) -> str:
    """Of records or requests: 0, 0.4, 12, 12.3k."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return short(value) if value >= 10 or value == 0 else f"{value:.1f}"


def size(value: float | None) -> str:
    return UNKNOWN if value is None or math.isnan(value) else _scaled(value, 1024, _BINARY)


def share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value * 100:.0f} %"


def duration(seconds: float | None) -> str:
    """One or two units: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds is None or math.isnan(seconds):
        return UNKNOWN
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "0 s"
    whole = round(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    for unit_s, unit, part_s, part in (
        (DAY_S, "d", HOUR_S, "h"),
        (HOUR_S, "h", MINUTE_S, "min"),
        (MINUTE_S, "min", 1, "s"),
    ):
        if whole >= unit_s:
            rest = whole % unit_s // part_s
            return f"{whole // unit_s} {unit} {rest} {part}" if rest else f"{whole // unit_s} {unit}"
    return f"{whole} s"


def clock(ms: int) -> str:
    """UTC, for readers without JavaScript; the page's script shows the reader's own time."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # some producers write microseconds
        return str(ms)


def _scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    for unit in units:
        if abs(value) < base * 0.9995 or unit == units[-1]:
            break
        value /= base
    digits = (
        0
        if unit == units[0] and value == round(value)
        else 0
        if abs(value) >= 99.95
        else 1
        if abs(value) >= 9.995
        else 2
    )
    text = f"{value:,.{digits}f}"
    if "." in text and unit == units[0]:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {unit}".strip()
