"""The state of a shard when its disk is full: the micro-batch fails, and runs again from the state before it."""

from __future__ import annotations

import sqlite3

import pytest

from odradek.streams.engine.store import ShardStore


def test_a_micro_batch_that_fills_the_disk_leaves_the_state_as_it_was(tmp_path):
    store = ShardStore(tmp_path / "shard-0.db")
    store.begin(0)
    store.cells(1).put(b"key", "before")
    store.commit()
    pages = store._sql.execute("pragma page_count").fetchone()[0]
    store._sql.execute(f"pragma max_page_count={pages + 1}")  # SQLite's own limit fails as a full disk does

    store.begin(1)
    store.cells(1).put(b"key", "x" * 100_000)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.commit()
    store.roll_back()

    store._sql.execute("pragma max_page_count=1000000")
    store.begin(1)
    assert store.cells(1).get(b"key") == "before"
    store.cells(1).put(b"key", "after")
    store.commit()
    store.begin(2)
    assert store.cells(1).get(b"key") == "after"
