"""After a crash the log is a prefix of what was appended, has everything that was synced, and works."""

from __future__ import annotations

import errno

import pytest

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import ErrorCode, KafkaError
from odradek.log import recovery, scan
from odradek.log.producer_snapshots import encode_producers
from odradek.log.recovery import LogOpening, open_log

VALUES = [b"a", b"b" * 50, b"c", b"d" * 30, b"e", b"f" * 70]


@pytest.fixture
def one_segment(make_partition):
    """Six batches of one record in one segment, and where each ends."""
    partition = make_partition(segment_bytes=1 << 20)
    ends = [0]
    for n, value in enumerate(VALUES):
        partition.append(value, producer_id=1, producer_epoch=0, base_sequence=n, timestamps=[partition.wall_ms + n])
        ends.append(partition.bytes_of(".log").size())
    return partition, ends


def check_usable(partition, kept):
    """The log serves this prefix. Appends, deduplication, time search and a clean restart continue from it."""
    log = partition.log
    assert log.log_end_offset == kept
    assert partition.values() == VALUES[:kept]
    if kept:
        again = partition.append(VALUES[kept - 1], producer_id=1, producer_epoch=0, base_sequence=kept - 1)
        assert (again.duplicate, again.base_offset) == (True, kept - 1)
        assert log.offset_for_timestamp(partition.wall_ms + kept - 1, kept).offset == kept - 1
    partition.append(b"new", producer_id=1, producer_epoch=0, base_sequence=kept)
    partition.restart()
    assert partition.values() == [*VALUES[:kept], b"new"]


def test_recovery_of_a_file_truncated_at_every_byte(one_segment):
    partition, ends = one_segment
    whole = partition.bytes_of(".log").pread(10_000, 0)
    for length in range(len(whole) + 1):
        file = partition.bytes_of(".log")
        file.truncate(0)
        file.pwrite(whole[:length], 0)
        partition.crash()
        kept = max(n for n, end in enumerate(ends) if end <= length)
        check_usable(partition, kept)


def test_recovery_with_every_byte_corrupted(one_segment):
    partition, ends = one_segment
    whole = partition.bytes_of(".log").pread(10_000, 0)
    for position in range(ends[3], ends[4]):
        if ends[3] + 12 <= position < ends[3] + 16:
            continue  # the checksum does not cover the leader epoch
        broken = bytearray(whole)
        broken[position] ^= 0x10
        file = partition.bytes_of(".log")
        file.truncate(0)
        file.pwrite(broken, 0)
        partition.crash()
        check_usable(partition, 3)


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 100, b"\xff" * 100, bytes(range(256)) * 8])
def test_recovery_removes_garbage_after_the_last_batch(one_segment, tail):
    partition, ends = one_segment
    partition.bytes_of(".log").pwrite(tail, ends[-1])
    partition.crash()
    assert partition.bytes_of(".log").size() == ends[-1]
    check_usable(partition, 6)


def test_recovery_accepts_gaps_between_offsets_of_a_compacted_log(make_partition, make_batch, now):
    partition = make_partition(cleanup_policy=frozenset({"compact"}))
    partition.append(b"a")
    kept = make_batch(b"b", base_offset=17, leader_epoch=0)
    partition.log.appending.as_follower(kept, now)
    partition.crash()
    assert [offset for offset, _, _ in partition.records()] == [0, 17]
    assert partition.values(9) == [b"b"]


class FullDisk(MemoryDisk):
    is_full = False

    def replace(self, path, data):
        if self.is_full:
            raise OSError(errno.ENOSPC, "no room", path)
        super().replace(path, data)


def test_failed_checkpoint_of_a_gap_is_retried(make_partition, make_batch, now):
    """Otherwise recovery would take the gap for data loss when the policy no longer has compaction."""
    partition = make_partition(FullDisk())
    partition.append(b"a")
    failed, beyond = partition.log, make_batch(b"b", base_offset=17, leader_epoch=0)
    partition.disk.is_full = True
    with pytest.raises(KafkaError) as broken:
        failed.appending.as_follower(beyond, now)
    assert broken.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    partition.disk.is_full = False
    partition.logs.succeed(failed, partition.logs.reopen(failed, now))
    partition.logs.get(failed.topic_partition).appending.as_follower(beyond, now)
    partition.crash()
    assert [offset for offset, _, _ in partition.records()] == [0, 17]


def test_recovery_removes_an_old_batch_after_the_last_one(one_segment):
    """Its checksum is valid, but its offset does not follow."""
    partition, ends = one_segment
    file = partition.bytes_of(".log")
    file.pwrite(file.pread(ends[2] - ends[1], ends[1]), ends[-1])
    partition.crash()
    check_usable(partition, 6)


@pytest.fixture
def many_segments(partition):
    for n in range(12):
        partition.append(b"v%02d" % n * 100, timestamps=[partition.wall_ms + n], leader_epoch=n // 4)
    assert [name[18:20] for name in partition.names(".log")] == ["00", "02", "04", "06", "08", "10"]
    return partition


def expected(count):
    return [b"v%02d" % n * 100 for n in range(count)]


def test_segments_after_a_hole_are_deleted(many_segments):
    partition = many_segments
    torn = partition.bytes_of(".log", 4)
    torn.truncate(torn.size() - 1)
    partition.crash()
    assert partition.values() == expected(5)
    assert partition.names(".log")[-1] == "00000000000000000004.log"
    assert all(int(name[:20]) <= 5 for name in partition.names(".snapshot"))
    partition.append(b"new")
    assert partition.values()[-1] == b"new"


def test_segments_after_lost_batches_are_deleted(many_segments):
    partition = many_segments
    short = partition.bytes_of(".log", 4)
    short.truncate(short.size() // 2)
    partition.crash()
    assert partition.values() == expected(5)


def test_recovery_with_a_lost_segment_file(many_segments):
    partition = many_segments
    partition.disk.remove("orders-0/00000000000000000006.log")
    partition.crash()
    assert partition.values() == expected(6)
    assert not partition.disk.exists("orders-0/00000000000000000006.index")


def test_log_that_was_never_synced_is_emptied_when_its_first_segment_is_lost(many_segments):
    partition = many_segments
    partition.disk.remove("orders-0/00000000000000000000.log")
    partition.crash()
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 0)
    assert partition.append(b"x").base_offset == 0


def test_log_shortened_by_retention_survives_a_lost_checkpoint(many_segments):
    partition = many_segments
    partition.configure(retention_bytes=2000)
    partition.log.syncing.whole()
    deleted = partition.log.retention.delete_expired(partition.wall_ms, 12)
    partition.logs.retire(deleted)
    partition.disk.remove("log-start-offset-checkpoint")
    partition.crash()
    assert partition.log.log_start_offset == 2 * len(deleted) > 0
    assert partition.log.log_end_offset == 12


def test_recovery_reads_only_unsynced_segments(many_segments, monkeypatch):
    partition = many_segments
    work = partition.log.syncing.begin_rolled()
    work.run()
    partition.log.syncing.finish(work)
    assert partition.log.recovery_point == 10
    partition.logs.write_checkpoints()
    scanned = []
    monkeypatch.setattr(recovery, "verified", lambda file, end: scanned.append(file.path) or scan.verified(file, end))
    partition.crash()
    assert scanned == ["orders-0/00000000000000000010.log"]
    assert partition.log.recovery_point == 10
    assert partition.values() == expected(12)


def test_start_after_a_clean_stop_reads_no_segments(many_segments, monkeypatch):
    partition = many_segments
    partition.logs.close(broker_epoch=7)

    def touched(*_):
        raise AssertionError("a clean log was read")

    for module, name in ((recovery, "verified"), (recovery, "headers"), (recovery, "restore_producers")):
        monkeypatch.setattr(module, name, touched)
    partition._load()
    assert (partition.logs.stopped_cleanly, partition.logs.previous_broker_epoch) == (True, 7)
    assert (partition.log.log_end_offset, partition.log.recovery_point) == (12, 12)
    assert not partition.log.segments.active.grows
    monkeypatch.undo()
    assert partition.values() == expected(12)


def test_clean_shutdown_marker_is_removed_before_logs_are_loaded(many_segments, monkeypatch):
    partition = many_segments
    partition.logs.close(broker_epoch=7)

    def power_cut(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("odradek.log.directory.open_log", power_cut)
    with pytest.raises(KeyboardInterrupt):
        partition._load()
    assert not partition.disk.exists(".kafka_cleanshutdown")


def test_implausible_clean_shutdown_marker_is_ignored(many_segments):
    partition = many_segments
    partition.logs.close(broker_epoch=7)
    partition.disk.replace("recovery-point-offset-checkpoint", b"0\n1\norders 0 3\n")
    partition._load()
    assert partition.values() == expected(12)
    partition.logs.close(broker_epoch=7)
    partition.disk.remove("recovery-point-offset-checkpoint")
    partition._load()
    assert partition.values() == expected(12)


GARBAGE = {
    "missing": None,
    "empty": b"",
    "cut": b"\0\0\0",
    "zeros": bytes(240),
    "ones": b"\xff" * 240,
    "disorder": bytes(range(240, 0, -1)),
}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", list(GARBAGE))
@pytest.mark.parametrize("stop", ["crash", "clean"])
def test_corrupt_index_is_rebuilt(many_segments, suffix, content, stop):
    partition = many_segments
    now = partition.wall_ms
    if stop == "clean":
        partition.logs.close(broker_epoch=7)
    good = {}
    for base in range(0, 12, 2) if stop == "clean" else range(0, 10, 2):
        name = f"orders-0/{base:020d}{suffix}"
        good[name] = partition.disk.read(name)
        partition.disk.remove(name)
        if GARBAGE[content] is not None:
            partition.disk.replace(name, GARBAGE[content])
    partition._load()
    assert partition.logs.stopped_cleanly == (stop == "clean")
    assert partition.values() == expected(12)
    for start in range(12):
        assert partition.values(start) == expected(12)[start:]
        assert partition.log.offset_for_timestamp(now + start, 12).offset == start
    assert partition.log.max_timestamp_offset().offset == 11
    partition.configure(retention_ms=100)
    assert partition.log.retention.delete_expired(now + 101, 12) == []
    partition.append(b"w" * 300)
    partition.restart()
    assert {name: partition.disk.read(name) for name in good} == good


def test_truncated_index_is_detected_and_rebuilt(make_partition):
    partition = make_partition(segment_bytes=5000, index_interval_bytes=100)
    for n in range(100):
        partition.append(b"v%02d" % n)
    partition.logs.close(broker_epoch=7)
    whole = partition.disk.read("orders-0/00000000000000000000.index")
    partition.disk.replace("orders-0/00000000000000000000.index", whole[: len(whole) // 16 * 8])
    partition._load()
    assert partition.log.segment_count > 1
    last_of_first = int(partition.names(".log")[1][:20]) - 1
    assert partition.log.read(last_of_first, 1, 100, True) is not None
    assert partition.disk.read("orders-0/00000000000000000000.index") == whole


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
@pytest.mark.parametrize("stop", ["crash", "clean"])
def test_damaged_producer_snapshots_are_ignored(make_partition, damage, stop):
    partition = make_partition()
    for n in range(12):
        partition.append(b"v" * 300, producer_id=n % 2, producer_epoch=0, base_sequence=n // 2)
    before = encode_producers(partition.log.known_producers(partition.wall_ms))
    if stop == "clean":
        partition.logs.close(broker_epoch=7)
    for name in partition.names(".snapshot")[1:]:
        content = bytearray(partition.disk.read(f"orders-0/{name}"))
        content[20] ^= 1
        partition.disk.remove(f"orders-0/{name}")
        if damage != "missing":
            partition.disk.replace(f"orders-0/{name}", bytes(content[:20] if damage == "cut" else content))
    partition._load()
    assert encode_producers(partition.log.known_producers(partition.wall_ms)) == before
    assert partition.append(b"v" * 300, producer_id=1, producer_epoch=0, base_sequence=5).duplicate


def test_producer_snapshots_beyond_the_log_end_are_removed(many_segments):
    partition = many_segments
    partition.disk.replace("orders-0/00000000000000000099.snapshot", b"")
    partition.crash()
    assert "00000000000000000099.snapshot" not in partition.names()


def test_log_that_ends_before_its_log_start_restarts_empty_there(many_segments):
    partition = many_segments
    partition.log.advance_log_start(11)
    partition.logs.write_checkpoints()
    for name in partition.names(".log")[3:]:
        partition.disk.remove(f"orders-0/{name}")
    partition.crash()
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (11, 11)
    assert partition.append(b"x").base_offset == 11


def test_leftover_files_are_removed_at_start(many_segments):
    partition = many_segments
    for name in ("00000000000000000000.log.deleted", "00000000000000000050.index", "00000000000000000000.log.cleaned"):
        partition.disk.replace(f"orders-0/{name}", b"x")
    partition.disk.replace("orders-0/00000000000000000005-0000000001.checkpoint.deleted", b"the quorum's")
    partition.crash()
    assert partition.names(".deleted") == ["00000000000000000005-0000000001.checkpoint.deleted"]
    assert partition.names(".cleaned") == []
    assert "00000000000000000050.index" not in partition.names()


@pytest.mark.parametrize("survivors", range(8))
def test_crash_at_any_step_of_a_roll(make_partition, survivors):
    """Any subset of the files that a roll creates may have reached the disk."""
    partition = make_partition()
    partition.append(b"a" * 400)
    partition.append(b"b" * 400)
    partition.log.rolling.roll(partition.wall_ms)
    created = ["00000000000000000002.log", "00000000000000000000.index", "00000000000000000002.snapshot"]
    for bit, name in enumerate(created):
        if not survivors & 1 << bit:
            partition.disk.remove(f"orders-0/{name}")
    partition.crash()
    assert partition.values() == [b"a" * 400, b"b" * 400]
    assert partition.append(b"c").base_offset == 2
    assert partition.values() == [b"a" * 400, b"b" * 400, b"c"]


def test_log_outside_a_log_directory(partition):
    """The metadata log is opened like this: without checkpoints and marker."""
    partition.append(b"a")
    partition.disk.make_dir("__cluster_metadata-0")
    for _ in range(2):
        opening = LogOpening(
            topic_partition=partition.log.topic_partition,
            directory="__cluster_metadata-0",
            config=partition.config,
            wall_ms=partition.wall_ms,
        )
        log = open_log(partition.disk, opening)
    assert (log.log_end_offset, log.directory) == (0, "__cluster_metadata-0")
    partition.crash()
    assert list(partition.logs.logs) == [partition.log.topic_partition]


def test_truncation_by_recovery_survives_a_second_crash(one_segment):
    """The truncation is synced before new records are written."""
    partition, ends = one_segment
    synced = []
    file = partition.bytes_of(".log")
    file.pwrite(b"\xff", ends[3] + 30)
    sync = type(file).sync
    try:
        type(file).sync = lambda self: synced.append((self.path, self.size()))
        partition.crash()
    finally:
        type(file).sync = sync
    assert synced == [("orders-0/00000000000000000000.log", ends[3])]
