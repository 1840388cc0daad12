"""Files that survive a crash of the machine: what is made durable, and in which order."""

from __future__ import annotations

import os
from pathlib import Path

from odradek.pipeline import durable
from odradek.pipeline.durable import replace_durably


def test_the_content_is_durable_before_the_file_is_replaced_and_its_name_afterwards(tmp_path, monkeypatch):
    path = tmp_path / "state"
    path.write_bytes(b"old")
    synced = []

    def fsync(handle: int) -> None:
        synced.append((Path(os.readlink(f"/proc/self/fd/{handle}")), path.read_bytes()))

    monkeypatch.setattr(durable.os, "fsync", fsync)
    replace_durably(path, b"new")
    assert synced == [(tmp_path / "state@new", b"old"), (tmp_path, b"new")]
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
