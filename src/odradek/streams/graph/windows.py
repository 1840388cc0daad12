"""Windows of event time: which window a row belongs to, and how long its results stay open for late rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from odradek.pipeline.durations import Duration, duration, spoken
from odradek.pipeline.errors import PipelineError

WindowKind = Literal["tumbling", "hopping", "sliding", "session"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    kind: WindowKind
    size: timedelta  # of a session: the gap that ends it
    every: timedelta
    grace: timedelta | None  # None: what the source says about lateness

    def __str__(self) -> str:
        every = f" every {spoken(self.every)}" if self.kind == "hopping" else ""
        grace = f", grace {spoken(self.grace)}" if self.grace is not None else ""
        return f"{self.kind} {spoken(self.size)}{every}{grace}"


def tumbling(size: Duration, *, grace: Duration | None = None) -> Window:
    """Windows side by side: every row is in exactly one."""
    return _window("tumbling", size, size, grace)


def hopping(size: Duration, *, every: Duration, grace: Duration | None = None) -> Window:
    """Windows of `size` that start `every` so often and overlap: a row is in `size / every` of them."""
    if duration(every) > duration(size):
        raise PipelineError(
            f"a hopping window of {size} every {every} leaves gaps: rows between two windows would be in none",
            instead=f'hopping("{every}", every="{size}")',
        )
    return _window("hopping", size, every, grace)


def sliding(size: Duration, *, grace: Duration | None = None) -> Window:
    """Every set of rows that fit into `size`: a window ends with each row, and one begins after each, ends included."""
    return _window("sliding", size, size, grace)


def session(gap: Duration, *, grace: Duration | None = None) -> Window:
    """Rows closer together than `gap` are one session."""
    return _window("session", gap, gap, grace)


def _window(kind: WindowKind, size: Duration, every: Duration, grace: Duration | None) -> Window:
    if not duration(size) or not duration(every):
        raise PipelineError(f"a {kind} window needs a length above zero")
    return Window(
        kind=kind,
        size=duration(size),
        every=duration(every),
        grace=None if grace is None else duration(grace),
    )
