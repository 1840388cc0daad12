"""Inputs in the canonical order, and ways of cutting them into micro-batches."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from odradek.streams.engine.clock import Source, beats
from odradek.streams.engine.order import after_results_of_time, record_position
from odradek.streams.engine.shard import Arrival, Placed, Result, Step, run_batch
from odradek.streams.engine.store import ShardStore

SECOND = 1_000_000
LATE = 3 * SECOND

Row = tuple[int, int, tuple]  # port, time in microseconds, values


def arrivals(rows: Sequence[Row]) -> list[Arrival]:
    """Rows as they came: the n-th was stored at millisecond n, each port in a partition of its own."""
    return [
        Arrival(record_position(n, port, 0, n), port, time, None, False, values)
        for n, (port, time, values) in enumerate(rows)
    ]


class Line:
    """One step of the engine, on the state in a directory: micro-batches in, results out."""

    def __init__(
        self, make: Callable[[], Step], ports: Sequence[int], timed: Sequence[int], path: Path, late: int = LATE
    ):
        self._make, self._ports, self._path = make, frozenset(ports), path
        self._sources = {port: Source(port, LATE) for port in timed}
        self._store = ShardStore(path)
        self.batch = 0
        self.late = 0
        self.given_late: list[Result] = []

    def run(self, rows: Sequence[Arrival], moving: Sequence[Arrival] | None = None) -> list[Result]:
        """`moving`: the rows that move time, if they are not the same."""
        placed = [Placed(7, self._make(), self._ports, tuple(s.number for s in self._sources.values()), 8)]
        movers = rows if moving is None else moving
        heard = [
            beat
            for port, source in self._sources.items()
            for beat in beats(source, [(row.at, row.time) for row in movers if row.port == port])
        ]
        results, counts = run_batch(self._store, self.batch, placed, {}, rows, heard)
        self.batch += 1
        self.late += counts["late"]
        self.given_late += results[8]
        return sorted(results[7], key=lambda one: one.at)

    def kill(self) -> None:
        """After the last micro-batch was done and before Spark knew: it is run again by another process."""
        self._store.close()
        self._store = ShardStore(self._path)
        self.batch -= 1


def cut(rows: Sequence[Arrival], seed: int) -> list[list[Arrival]]:
    """One batch, row by row, or something in between."""
    if seed == 0:
        return [list(rows)]
    if seed == 1:
        return [[row] for row in rows]
    generator = random.Random(seed)
    edges = sorted(generator.sample(range(len(rows) + 1), min(len(rows), generator.randint(1, 6))))
    return [list(rows[a:b]) for a, b in zip([0, *edges], [*edges, len(rows)], strict=True)]


def results_of(
    line: Line,
    batches: Sequence[Sequence[Arrival]],
    kills: Sequence[int] = (),
    moving: Sequence[Arrival] | None = None,
) -> list[Result]:
    found: list[Result] = []
    for number, batch in enumerate(batches):
        made = line.run(batch, moving)
        if number in kills:
            line.kill()
            again = line.run(batch)
            assert again == made, "a micro-batch that is run again gives the same"
        found += made
    return found


__all__ = ["LATE", "SECOND", "Line", "after_results_of_time", "arrivals", "cut", "results_of"]
