"""What the driver sees of the engine's shards while tasks write to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.streams.engine.clock import Clock
from odradek.streams.engine.shard import CLOCK_KEY, CLOCK_STEP, LATE
from odradek.streams.engine.store import ShardStore
from odradek.streams.run.figures import ShardFigures


@pytest.fixture
def shards(tmp_path):
    stores = [ShardStore(tmp_path / f"level-{level}" / f"shard-{shard}.db") for level in (1, 2) for shard in (0, 1)]
    yield stores
    for store in stores:
        store.close()


def run(store: ShardStore, batch: int, keys: str, late: int) -> None:
    store.begin(batch)
    for key in keys:
        store.cells(0).put(key.encode(), key)
    store.commit({LATE: late})


def test_figures_are_the_sum_over_levels_and_shards_and_follow_the_writers(shards, tmp_path):
    figures = ShardFigures(tmp_path)
    for number, store in enumerate(shards):
        run(store, 0, "ab", number)
    first = figures.read()
    assert (first.rows, first.late_rows) == (8, 6)
    assert first.bytes == sum(
        path.stat().st_size for path in tmp_path.glob("level-*/*.db*") if path.suffix != ".db-shm"
    )
    run(shards[0], 1, "abc", 1)
    second = figures.read()
    assert (second.rows, second.late_rows) == (9, 7)
    assert figures.read() == second


def test_event_time_is_that_of_the_slowest_step(shards, tmp_path):
    figures = ShardFigures(tmp_path)
    for store, times in zip(shards, [(5, 9), (5, 9), (7,), (7,)], strict=True):
        store.begin(0)
        reached = {(number,): time * 1_000_000 for number, time in enumerate(times)}
        store.cells(CLOCK_STEP).put(CLOCK_KEY, Clock(reached=reached))
        store.commit({})
    assert figures.read().event_time == "1970-01-01T00:00:05.000Z"


def test_without_a_step_that_waits_there_is_no_event_time(shards, tmp_path):
    run(shards[0], 0, "a", 0)
    assert ShardFigures(tmp_path).read().event_time is None


def test_a_shard_that_is_being_created_is_not_an_error(tmp_path):
    assert ShardFigures(tmp_path).read() is None
    (tmp_path / "level-1").mkdir()
    Path(tmp_path / "level-1" / "shard-0.db").write_bytes(b"")
    assert ShardFigures(tmp_path).read().rows == 0
