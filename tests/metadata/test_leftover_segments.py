"""Segments of the metadata log that a snapshot covers: they are deleted, and harmless if a crash leaves them behind."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.ids import LeaderEpoch, Offset
from odradek.base.ports import Disk
from odradek.metadata import metadata_log
from odradek.metadata.bootstrap import METADATA_LOG_DIRECTORY
from odradek.quorum.log_facts import SnapshotId
from odradek.server.quorum import snapshots as metadata_snapshots
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs
from support.data_broker import batch

WALL_MS = 1_700_000_000_000
FIRST = f"{METADATA_LOG_DIRECTORY}/00000000000000000000.log"


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dir(METADATA_LOG_DIRECTORY)
    return disk


def opened(disk: Disk, *snapshot_ends: int):
    snapshots = [SnapshotId(Offset(end), LeaderEpoch(1)) for end in snapshot_ends]
    return metadata_log._open(disk, WALL_MS, 1 << 20, snapshots)


def write(log, *values: str) -> None:
    for value in values:
        log.appending.trusted(batch(value), LeaderEpoch(1), WALL_MS)
    log.syncing.whole()


def test_segments_covered_by_a_snapshot_are_deleted(disk):
    log = opened(disk)
    write(log, "a", "b")
    log.rolling.roll(WALL_MS)
    write(log, "c")
    log.advance_log_start(2)
    metadata_snapshots._remove(disk, log.retention.delete_expired(WALL_MS, 3), [])
    assert not disk.exists(FIRST)
    assert opened(disk, 2).log_end_offset == 3


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_leaves_no_gap_between_segments(seed):
    machine = SimDisk(Random(seed), DiskKnobs(survival=0.5))
    disk = machine.mount()
    disk.make_dir(METADATA_LOG_DIRECTORY)
    disk.sync_dir("")
    log = opened(disk)
    for value in ("a", "b", "c"):
        write(log, value)
        log.rolling.roll(WALL_MS)
    write(log, "d")
    log.advance_log_start(3)
    metadata_snapshots._remove(disk, log.retention.delete_expired(WALL_MS, 4), [])
    machine.power_cut()
    assert opened(machine.mount(), 2).log_end_offset == 4


async def in_turn(call, *args):
    return call(*args)


def test_segments_that_a_failing_disk_kept_are_deleted_first_the_next_time(disk, monkeypatch):
    log = opened(disk)
    for value in ("a", "b", "c"):
        write(log, value)
        log.rolling.roll(WALL_MS)
    write(log, "d")
    snapshots = metadata_snapshots.MetadataSnapshots(
        SimpleNamespace(log=log, core=SimpleNamespace(high_watermark=4)),
        SimpleNamespace(
            disk=disk, clock=SimpleNamespace(wall_ms=lambda: WALL_MS), spawner=SimpleNamespace(blocking=in_turn)
        ),
        own=None,
        cluster_id="",
        bytes_between=0,
    )

    def refuse(_path):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(disk, "sync_dir", refuse)
        with pytest.raises(OSError, match="Input/output"):
            asyncio.run(snapshots._forget_before(SnapshotId(Offset(2), LeaderEpoch(1))))
    asyncio.run(snapshots._forget_before(SnapshotId(Offset(3), LeaderEpoch(1))))
    assert [name for name in disk.listdir(METADATA_LOG_DIRECTORY) if ".log" in name] == [f"{3:020d}.log"]
    assert opened(disk, 2).log_end_offset == 4


def test_a_log_restarted_at_a_snapshot_opens_despite_leftover_older_segments(disk):
    log = opened(disk)
    write(log, "a", "b")
    before = disk.read(FIRST)
    log.truncation.fully_and_start_at(10)
    write(log, "k", "l")
    disk.replace(FIRST, before)
    again = opened(disk, 1, 10, 11)
    assert (again.log_start_offset, again.log_end_offset) == (10, 12)
