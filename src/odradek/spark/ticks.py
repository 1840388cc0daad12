"""Ticks: the time that a query receives, from the wall clock in steps or from a file that a test writes.

The time is part of the offsets, so a new time starts a micro-batch even when there are no new records.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from odradek.spark.errors import RefusedOption
from odradek.spark.options import ReadOptions
from odradek.spark.stream_offset import StreamOffset


def ticked(options: ReadOptions, begun: StreamOffset, end: StreamOffset) -> StreamOffset:
    """`end` with the current time, not before that of `begun`. While the file exists, the wall clock stands still."""
    told_ms = None if options.tick_file is None else _told(options.tick_file)
    if told_ms is not None:
        return replace(end, clock_ms=begun.clock_ms, time_ms=told_ms)
    clock_ms = begun.clock_ms
    if options.tick_every_ms is not None:
        now_ms = int(time.time() * 1000)
        clock_ms = max(now_ms - now_ms % options.tick_every_ms, begun.clock_ms or 0)  # a clock may be set back
    return replace(end, clock_ms=clock_ms, time_ms=begun.time_ms)


def tick_between(begun: StreamOffset, end: StreamOffset) -> int | None:
    if end.time_ms != begun.time_ms:
        return end.time_ms
    return end.clock_ms if end.clock_ms != begun.clock_ms else None


def _told(path: str) -> int | None:
    try:
        text = Path(path).read_text().strip()
    except FileNotFoundError:
        return None
    if not text:  # about to be written
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError as problem:
        raise RefusedOption(
            f"tickFile: {path} holds {text!r}; expected ms since 1970 or an ISO time such as 2024-05-01T12:00:00Z"
        ) from problem
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
