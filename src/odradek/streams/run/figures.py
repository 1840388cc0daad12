"""What the shards of a query of the engine keep and have counted, as the driver sees it from their files."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from odradek.pipeline.recording import StateFigures
from odradek.streams.engine.shard import LATE
from odradek.streams.engine.store import STATE_ROWS, read_figures

Stamp = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ShardFigures:
    """Of all shards under a folder. A file that nobody has written to since is not read again."""

    folder: Path
    _known: dict[Path, tuple[Stamp, dict[str, int]]] = field(default_factory=dict)

    def read(self) -> StateFigures | None:
        """None while there is no shard: no step keeps state, or no row has come."""
        shards = sorted(self.folder.glob("level-*/shard-*.db"))
        if not shards:
            return None
        total: Counter[str] = Counter()
        size = 0
        for shard in shards:
            stamp = _stamp(shard)
            size += sum(length for length, _ in stamp)
            total.update(self._figures(shard, stamp))
        return StateFigures(rows=total[STATE_ROWS], bytes=size, late_rows=total[LATE])

    def _figures(self, shard: Path, stamp: Stamp) -> dict[str, int]:
        known = self._known.get(shard)
        if known is None or known[0] != stamp:
            try:
                known = self._known[shard] = stamp, read_figures(shard)
            except sqlite3.Error:  # it is being created, or its writer has it for itself at the moment
                return {} if known is None else known[1]
        return known[1]


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
