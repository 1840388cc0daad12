"""Syncs during appends and rolls, what they guarantee, and logs on a failing disk."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

import pytest

from odradek.adapters.memory_disk import MemoryDisk, MemoryFile
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.invariants import InvariantBroken
from odradek.log.indexes import ActiveIndexes
from odradek.log.segment import Segment
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs
from odradek.sim.inside import check_indexes
from odradek.sim.loop import PowerCut


class WatchedDisk(MemoryDisk):
    """Records which files and directories were synced, in order, and fails on demand."""

    def __init__(self):
        super().__init__()
        self.synced = []
        self.fails = ""
        self.writes_at_most = None

    def open(self, path, *, create=False):
        return WatchedFile(self, super().open(path, create=create))

    def sync_dir(self, path):
        super().sync_dir(path)
        self.synced.append(path + "/")

    def sync_all(self):
        self.synced.append("everything")

    def replace(self, path, data):
        super().replace(path, data)
        self.synced.append(path)


class WatchedFile:
    def __init__(self, disk, file: MemoryFile):
        self._disk = disk
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def _may_fail(self, what):
        if self._disk.fails == what:
            raise OSError(errno.EIO, "the disk is failing")

    def sync(self):
        self._may_fail("sync")
        self._disk.synced.append(self._file.path)

    def pwrite(self, data, position):
        self._may_fail("write")
        limit = self._disk.writes_at_most
        if limit is not None:
            return self._file.pwrite(memoryview(data)[:limit], position)
        return self._file.pwrite(data, position)

    def truncate(self, size):
        self._may_fail("truncate")
        self._file.truncate(size)


@pytest.fixture
def watched(make_partition):
    partition = make_partition(WatchedDisk())
    partition.disk.synced.clear()
    return partition


def synced(partition):
    names = [path.removeprefix("orders-0/0000000000000000") for path in partition.disk.synced]
    partition.disk.synced.clear()
    return names


def test_first_sync_includes_the_directory_names(watched):
    watched.append(b"a")
    watched.log.syncing.whole()
    assert synced(watched) == [
        "0000.log",
        "orders-0/partition.metadata",
        "orders-0/",
        "/",
        "orders-0/leader-epoch-checkpoint",
    ]
    assert watched.log.recovery_point == 1
    watched.append(b"b")
    watched.log.syncing.whole()
    assert synced(watched) == ["0000.log"]


def test_sync_writes_a_new_leader_epoch_after_its_data(watched):
    watched.append(b"a")
    watched.log.syncing.whole()
    synced(watched)
    watched.append(b"b", leader_epoch=1)
    watched.log.syncing.whole()
    assert synced(watched) == ["0000.log", "orders-0/leader-epoch-checkpoint"]


def test_rolled_segments_are_synced_with_their_indexes_and_snapshot(watched):
    for _ in range(5):
        watched.append(b"v" * 400)
    assert watched.log.rolling.since_sync
    work = watched.log.syncing.begin_rolled()
    work.run()
    watched.log.syncing.finish(work)
    assert (watched.log.recovery_point, watched.log.rolling.since_sync) == (4, False)
    assert synced(watched)[:6] == [
        "0000.log", "0000.index", "0000.timeindex", "0002.log", "0002.index", "0002.timeindex",
    ]  # fmt: skip
    watched.log.syncing.whole()
    assert synced(watched) == ["0004.log"]
    assert watched.log.recovery_point == 5


def test_records_appended_during_a_sync_belong_to_the_next_sync(watched):
    watched.append(b"a")
    work = watched.log.syncing.begin()
    for _ in range(3):
        watched.append(b"v" * 400)
    work.run()
    watched.log.syncing.finish(work)
    assert watched.log.recovery_point == 1
    synced(watched)
    watched.log.syncing.whole()
    assert watched.log.recovery_point == 4
    assert "0000.log" in synced(watched)


def test_truncation_during_a_sync_invalidates_the_sync(watched):
    for _ in range(3):
        watched.append(b"a")
    work = watched.log.syncing.begin()
    watched.log.truncation.to(1)
    watched.append(b"b")
    work.run()
    watched.log.syncing.finish(work)
    assert watched.log.recovery_point == 0


def test_one_sync_at_a_time(watched):
    watched.append(b"a")
    work = watched.log.syncing.begin()
    assert watched.log.syncing.in_flight
    with pytest.raises(InvariantBroken):
        watched.log.syncing.begin()
    work.run()
    watched.log.syncing.finish(work)
    assert not watched.log.syncing.in_flight


def test_log_deleted_during_a_sync_reports_no_failure(make_partition):
    """Its files are closed and its directory is renamed: the failed sync is not reported."""
    partition = make_partition(SimDisk(Random(1), DiskKnobs()).mount())
    partition.append(b"a")
    work = partition.log.syncing.begin()
    partition.logs.mark_deleted(partition.log.topic_partition)
    work.run()
    with pytest.raises(KafkaError):
        partition.log.syncing.finish(work)


def test_segments_deleted_during_a_sync(watched, now):
    for n in range(5):
        watched.append(b"v" * 400, producer_id=1, producer_epoch=0, base_sequence=n)
    watched.configure(retention_bytes=0)
    work = watched.log.syncing.begin()
    deleted = watched.log.retention.delete_expired(now, 5)
    watched.logs.retire(deleted)
    for segment in deleted:
        segment.remove()
    work.run()
    watched.log.syncing.finish(work)
    assert watched.log.recovery_point == 5
    watched.log.syncing.whole()


def test_flush_messages(make_partition):
    partition = make_partition(flush_messages=3)
    assert not partition.append(b"a", b"b").needs_sync
    assert partition.append(b"c").needs_sync
    partition.log.syncing.whole()
    assert not partition.append(b"d").needs_sync
    partition.configure(flush_messages=1)
    assert partition.append(b"e", producer_id=1, producer_epoch=0, base_sequence=0).needs_sync
    assert partition.append(b"e", producer_id=1, producer_epoch=0, base_sequence=0).needs_sync, "a duplicate waits too"


def test_flush_ms(make_partition, now):
    partition = make_partition(flush_ms=100)
    assert not partition.log.syncing.is_due(now)
    partition.append(b"a")
    assert not partition.log.syncing.is_due(now)
    assert not partition.log.syncing.is_due(now + 99)
    assert partition.log.syncing.is_due(now + 100)
    partition.log.syncing.whole()
    assert not partition.log.syncing.is_due(now + 300)
    partition.append(b"b")
    assert not partition.log.syncing.is_due(now + 350)


def append_and_sync(partition, value):
    partition.append(value)
    partition.log.syncing.whole()


@pytest.mark.parametrize("failure", ["write", "sync", "short write"])
def test_log_accepts_no_appends_after_an_io_error(watched, failure):
    watched.append(b"a")
    size = watched.bytes_of(".log").size()
    if failure == "short write":
        watched.disk.writes_at_most = 10
    else:
        watched.disk.fails = failure
    with pytest.raises(KafkaError) as broken:
        append_and_sync(watched, b"b")
    assert broken.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    watched.disk.fails, watched.disk.writes_at_most = "", None
    if failure != "sync":
        assert watched.bytes_of(".log").size() == size, "half a batch does not stay"
        assert watched.log.log_end_offset == 1
    assert watched.log.offline
    for attempt in (lambda: watched.append(b"c"), watched.log.syncing.begin):
        with pytest.raises(KafkaError) as offline:
            attempt()
        assert offline.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert watched.values()[0] == b"a"
    watched.logs.close(broker_epoch=1)
    assert not watched.disk.exists(".kafka_cleanshutdown")
    watched.crash()
    watched.append(b"d")
    assert watched.values() == ([b"a", b"d"] if failure != "sync" else [b"a", b"b", b"d"])


@pytest.mark.parametrize("missing", [".index", "partition.metadata"])
def test_sync_that_fails_to_begin_is_not_in_flight(make_partition, monkeypatch, missing):
    """Otherwise the log would never be reopened, because that waits for the end of a sync."""
    mounted = SimDisk(Random(1), DiskKnobs()).mount()
    partition = make_partition(mounted)
    for _ in range(3):
        partition.append(b"v" * 400)
    opens = mounted.open

    def fails(path, *, create=False):
        if path.endswith(missing):
            raise OSError(errno.EIO, "the disk is failing")
        return opens(path, create=create)

    monkeypatch.setattr(mounted, "open", fails)
    with pytest.raises(KafkaError):
        partition.log.syncing.begin()
    assert partition.log.offline
    assert not partition.log.syncing.in_flight
    assert [segment.file.pins for segment in partition.log.segments.in_order] == [0, 0]


def test_log_goes_offline_when_corruption_prevents_a_sync(watched, monkeypatch):
    """A request that waits for the sync gets the error. No later sync would answer it."""

    def broken(_):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "no index fits to these batches")

    for _ in range(3):
        watched.append(b"v" * 400)
    monkeypatch.setattr(Segment, "index_files", broken)
    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            watched.log.syncing.begin()
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "no index fits" in watched.log.offline
    assert not watched.log.syncing.in_flight


@pytest.mark.parametrize("synced", ["before", "across"])
def test_indexes_are_correct_after_a_power_cut_following_a_roll(make_partition, synced):
    """The batches were durable before the indexes were written: the recovery point must not cover the indexes."""
    for seed in range(20):
        disk = SimDisk(Random(seed), DiskKnobs(survival=0.5))
        partition = make_partition(disk.mount(), index_interval_bytes=0, segment_bytes=5000)
        for n in range(4):
            partition.append(b"v" * 400, timestamps=[1000 + n])
        sync = partition.log.syncing.begin()
        sync.run()
        if synced == "before":
            partition.log.syncing.finish(sync)
            partition.logs.write_checkpoints()
        partition.roll()
        if synced == "across":
            partition.log.syncing.finish(sync)
            partition.logs.write_checkpoints()
        partition.append(b"v")
        disk.power_cut()
        partition.disk = disk.mount()
        partition.crash()
        partition.restart()
        check_indexes(disk.files())  # before a reader finds an error and rebuilds them
        assert partition.values()[:4] == [b"v" * 400] * 4


def test_recovery_skips_a_segment_with_durable_indexes(make_partition):
    partition = make_partition(segment_bytes=5000)
    partition.append(b"a")
    partition.log.syncing.whole()
    assert partition.log.recovery_checkpoint == 0
    partition.roll()
    partition.append(b"b")
    partition.log.syncing.finish(run(partition.log.syncing.begin_rolled()))
    assert partition.log.recovery_checkpoint == partition.log.recovery_point == 1


def test_recovery_reads_no_more_after_repeated_crashes(make_partition):
    partition = make_partition()
    for _ in range(7):
        partition.append(b"v" * 400)
    partition.log.syncing.finish(run(partition.log.syncing.begin_rolled()))
    for _ in range(3):
        partition.logs.write_checkpoints()
        assert partition.log.recovery_checkpoint == 6
        partition.crash()


def test_preallocated_segment_is_durably_trimmed_at_a_roll(make_partition):
    disk = SimDisk(Random(0), DiskKnobs(survival=0.0))
    partition = make_partition(disk.mount(), segment_bytes=2000, preallocate=True, flush_messages=1)
    for _ in range(3):
        partition.append(b"v" * 400)
        partition.log.syncing.whole()
    partition.roll()
    partition.append(b"w")
    partition.log.syncing.whole()
    partition.logs.write_checkpoints()
    disk.power_cut()
    partition.disk = disk.mount()
    partition.crash()
    assert len(partition.records(max_bytes=1 << 20)) == 4


def test_power_cut_during_a_clean_stop_keeps_the_first_segments(make_partition):
    """The epoch checkpoint says that the segment names are durable, so it is written after them."""
    for seed in range(60):
        disk = SimDisk(Random(seed), DiskKnobs(survival=0.8))
        partition = make_partition(disk.mount())
        for _ in range(5):
            partition.append(b"v" * 400)

        def cut(what):
            if what == "sync everything":
                raise PowerCut

        partition.disk.before_change = cut
        with pytest.raises(PowerCut):
            partition.logs.close(broker_epoch=7)
        disk.power_cut()
        partition.disk = disk.mount()
        partition.crash()
        if partition.log is not None:
            assert partition.log.log_start_offset == 0


def with_a_durable_segment(make_partition, disk):
    """A durable segment of four batches, each with index entries. Only readers use these indexes later."""
    partition = make_partition(disk.mount(), index_interval_bytes=0, segment_bytes=5000)
    for n in range(4):
        partition.append(b"v" * 400, timestamps=[1000 + n])
    partition.roll()
    partition.append(b"w")
    partition.log.syncing.whole()
    partition.logs.write_checkpoints()
    return partition


def test_rebuilt_index_that_could_not_be_synced_is_rebuilt_again(make_partition, monkeypatch):
    disk = SimDisk(Random(0), DiskKnobs(survival=0.0))
    partition = with_a_durable_segment(make_partition, disk)
    index = partition.bytes_of(".index")
    index.truncate(0)
    index.sync()
    partition.crash()
    disk.knobs = DiskKnobs(survival=0.0, sync_error=1.0)
    with pytest.raises(OSError, match="Input/output error"):
        partition.values()
    disk.knobs = DiskKnobs(survival=0.0)
    assert len(partition.values()) == 5
    partition.log.syncing.whole()
    disk.power_cut()
    files = disk.files()
    check_indexes(files)
    assert len(files["orders-0/00000000000000000000.index"]) == 3 * 8


@pytest.mark.parametrize("trouble", [PowerCut(), OSError(errno.ENOSPC, "No space left on device")])
def test_failed_index_rebuild_leaves_no_partial_index(make_partition, trouble):
    """If the end of the time index were missing, retention would delete the segment too early without an error."""
    for seed in range(60):
        disk = SimDisk(Random(seed), DiskKnobs(survival=0.5))
        partition = with_a_durable_segment(make_partition, disk)
        for kind in (".index", ".timeindex"):
            index = partition.bytes_of(kind)
            index.truncate(12 if kind == ".timeindex" else 0)
            index.sync()
        partition.crash()
        steps = iter(range(seed % 10))

        def broken(_what, steps=steps):
            if next(steps, None) is None:
                raise trouble

        partition.disk.before_change = broken
        with suppress(PowerCut, OSError):
            partition.values()
        partition.disk.before_change = lambda _what: None
        if isinstance(trouble, PowerCut):
            disk.power_cut()
            partition.disk = disk.mount()
            partition.crash()
        assert partition.log.segments.in_order[0].max_time().timestamp == 1003
        assert not [name for name in disk.files() if name.endswith("index.tmp")]


def test_index_opened_during_a_rebuild_is_opened_again(make_partition, monkeypatch):
    partition = make_partition(index_interval_bytes=0, segment_bytes=5000)
    for n in range(4):
        partition.append(b"v" * 400, timestamps=[1000 + n])
    partition.roll()
    partition.bytes_of(".timeindex").truncate(0)
    segment = partition.log.segments.in_order[0]
    replace = ActiveIndexes.replace

    def while_another_looks(indexes, folder, suffix):
        assert segment._on_disk().last_time() is None
        replace(indexes, folder, suffix)

    monkeypatch.setattr(ActiveIndexes, "replace", while_another_looks)
    assert segment.max_time().timestamp == 1003


def test_stop_is_not_clean_when_the_disk_is_full_for_the_epochs(make_partition, monkeypatch):
    partition = make_partition()
    for n in range(3):
        partition.append(b"v" * 400, leader_epoch=n)
    writes = MemoryFile.pwrite

    def full(file, data, position):
        if "leader-epoch" in file.path:
            raise OSError(errno.ENOSPC, "No space left on device")
        return writes(file, data, position)

    with monkeypatch.context() as disk:
        disk.setattr(MemoryFile, "pwrite", full)
        partition.logs.close(broker_epoch=7)
    partition.crash()
    assert not partition.logs.stopped_cleanly
    assert len(partition.values()) == 3
    assert partition.log.leader_epochs.entries() == [(0, 0), (1, 1), (2, 2)]


def run(work):
    work.run()
    return work


def test_failed_roll_takes_the_log_offline(watched):
    watched.append(b"v" * 600)
    watched.disk.fails = "truncate"
    with pytest.raises(KafkaError) as broken:
        watched.append(b"v" * 600)
    assert broken.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert watched.log.offline
    watched.disk.fails = ""
    watched.crash()
    assert watched.values() == [b"v" * 600]


def test_first_clean_stop_syncs_everything_and_the_second_nothing(watched):
    for n in range(5):
        watched.append(b"v" * 300, producer_id=1, producer_epoch=0, base_sequence=n)
    watched.logs.close(broker_epoch=7)
    assert synced(watched) == [
        "everything",
        "everything",  # with the epochs
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "topic-id-checkpoint",
        ".kafka_cleanshutdown",
    ]
    watched.crash()
    synced(watched)
    watched.logs.close(broker_epoch=7)
    assert synced(watched) == [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        ".kafka_cleanshutdown",
    ]


def test_truncation_first_lowers_the_recovery_point_on_disk(watched):
    for n in range(6):
        watched.append(b"v" * 300, leader_epoch=n)
    watched.log.syncing.whole()
    watched.logs.write_checkpoints()
    watched.log.truncation.to(3)
    # Inside the segment that is active again.
    assert watched.disk.read("recovery-point-offset-checkpoint") == b"0\n1\norders 0 2\n"
    assert watched.log.recovery_point == 3
    for n in range(3):
        watched.append(b"w" * 300, leader_epoch=10 + n)
    assert watched.values() == [b"v" * 300] * 3 + [b"w" * 300] * 3
    watched.crash()
    assert watched.values() == [b"v" * 300] * 3 + [b"w" * 300] * 3
    assert watched.log.leader_epochs.entries() == [(0, 0), (1, 1), (2, 2), (10, 3), (11, 4), (12, 5)]


def test_truncation_removes_whole_batches_and_their_producer_state(partition):
    for n in range(4):
        partition.append(b"a" * 150, b"b" * 150, producer_id=1, producer_epoch=0, base_sequence=2 * n)
    partition.log.truncation.to(5)
    assert partition.log.log_end_offset == 4
    assert partition.append(b"a" * 150, b"b" * 150, producer_id=1, producer_epoch=0, base_sequence=2).duplicate
    assert partition.append(b"c", producer_id=1, producer_epoch=0, base_sequence=4).base_offset == 4
    partition.log.truncation.to(0)
    assert partition.values() == []
    assert partition.append(b"x", producer_id=1, producer_epoch=0, base_sequence=77).base_offset == 0


def test_truncate_fully_and_start_at_another_offset(partition):
    for n in range(6):
        partition.append(b"v" * 300, leader_epoch=n)
    partition.log.truncation.fully_and_start_at(100)
    log = partition.log
    assert (log.log_start_offset, log.log_end_offset, log.segment_count) == (100, 100, 1)
    assert log.leader_epochs.entries() == []
    assert partition.append(b"w").base_offset == 100
    partition.restart()
    assert partition.records() == [(100, b"w", partition.wall_ms)]


def test_crash_after_a_full_truncation_loses_nothing(partition):
    """Nothing was synced and the log does not begin at 0: recovery must not take that for lost first segments."""
    partition.log.truncation.fully_and_start_at(100)
    partition.append(b"w")
    partition.crash()
    assert partition.records() == [(100, b"w", partition.wall_ms)]
