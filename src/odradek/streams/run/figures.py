"""What the shards of a query of the engine keep and have counted, as the driver sees it from their files."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from odradek.pipeline.recording import StateFigures
from odradek.streams.engine.clock import Clock, Micros
from odradek.streams.engine.shard import CLOCK_KEY, CLOCK_STEP, LATE
from odradek.streams.engine.store import STATE_ROWS, read_cell, read_figures

EVENT_TIME = "event time"
"""Of the slowest step of a shard that waits for time."""
Stamp = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ShardFigures:
    """The figures of all shards under a folder. An unchanged file is not read again."""

    folder: Path
    _known: dict[Path, tuple[Stamp, dict[str, int]]] = field(default_factory=dict)

    def read(self) -> StateFigures | None:
        """None while there is no shard: no step keeps state, or no row has come."""
        shards = sorted(self.folder.glob("level-*/shard-*.db"))
        if not shards:
            return None
        stamps = {shard: _stamp(shard) for shard in shards}
        read = [self._figures(shard, stamp) for shard, stamp in stamps.items()]
        times = [figures[EVENT_TIME] for figures in read if EVENT_TIME in figures]
        return StateFigures(
            rows=sum(figures.get(STATE_ROWS, 0) for figures in read),
            bytes=sum(length for stamp in stamps.values() for length, _ in stamp),
            late_rows=sum(figures.get(LATE, 0) for figures in read),
            event_time=_spoken(min(times)) if times else None,
        )

    def _figures(self, shard: Path, stamp: Stamp) -> dict[str, int]:
        known = self._known.get(shard)
        if known is None or known[0] != stamp:
            try:
                known = self._known[shard] = stamp, _read(shard)
            except sqlite3.Error:  # it is being created, or its writer has it for itself at the moment
                return {} if known is None else known[1]
        return known[1]


def _read(shard: Path) -> dict[str, int]:
    clock: Clock | None = read_cell(shard, CLOCK_STEP, CLOCK_KEY)
    reached = {EVENT_TIME: min(clock.reached.values())} if clock is not None and clock.reached else {}
    return {**read_figures(shard), **reached}


def _spoken(time: Micros) -> str:
    return datetime.fromtimestamp(time // 1000 / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _stamp(shard: Path) -> Stamp:
    """Length and time of the file and of its log, which has what is not in the file yet."""
    found = []
    for path in (shard, shard.with_name(f"{shard.name}-wal")):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        found.append((status.st_size, status.st_mtime_ns))
    return tuple(found)
