"""Stores of shards outlive their task, but not their file."""

from __future__ import annotations

from odradek.streams.compile.topology.operators import open_store
from odradek.streams.engine.store import ShardStore


def test_file_recreated_by_another_worker_is_opened_again(tmp_path):
    path = tmp_path / "shard-0.db"
    old = open_store(path)
    old.begin(0)
    old.cells(1).put(b"key", "old")
    old.commit()
    assert open_store(path) is old

    for file in tmp_path.iterdir():
        file.unlink()
    other = ShardStore(path)
    other.begin(0)
    other.cells(1).put(b"key", "new")
    other.commit()
    other.close()

    store = open_store(path)
    store.begin(1)
    assert store.cells(1).get(b"key") == "new"
    store.roll_back()
