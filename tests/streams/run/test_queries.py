"""What a query knows of its state before it starts."""

from __future__ import annotations

import os
from pathlib import Path

from odradek.streams.run.queries import kept_shards, last_commit


def test_a_query_keeps_the_number_of_shards_it_began_with(tmp_path):
    assert kept_shards(tmp_path / "shards", 4) == 4
    assert kept_shards(tmp_path / "shards", 9) == 4


def test_the_number_of_shards_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Otherwise a machine that dies may leave an empty file, which does not say how the state is spread."""
    synced, sync = {}, os.fsync

    def noted(handle):
        sync(handle)
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        synced[path.name] = path.read_text() if path.is_file() else (path / "count").exists()

    monkeypatch.setattr(os, "fsync", noted)
    kept_shards(tmp_path / "shards", 4)
    assert synced.pop("shards") is True, "the name is, too"
    assert "4" in synced.values()


def test_the_last_micro_batch_that_spark_committed_is_the_newest_file_of_its_log(tmp_path):
    assert last_commit(tmp_path) == -1
    commits = tmp_path / "commits"
    commits.mkdir()
    assert last_commit(tmp_path) == -1
    for name in ("9", "10", ".10.crc", ".11.0a1b.tmp"):
        (commits / name).touch()
    assert last_commit(tmp_path) == 10
