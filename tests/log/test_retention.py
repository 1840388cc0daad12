"""Which segments retention deletes, and which it never deletes."""

from __future__ import annotations

import errno

import pytest

from odradek.adapters.memory_disk import MemoryFile
from odradek.base.errors import ErrorCode, KafkaError


def fill(partition, count, **options):
    for _ in range(count):
        partition.append(b"v" * 400, **options)


def expire(partition, wall_ms=None, high_watermark=None):
    """Delete expired segments, with all steps until their files are gone."""
    log = partition.log
    deleted = log.retention.delete_expired(
        wall_ms or partition.wall_ms, log.log_end_offset if high_watermark is None else high_watermark
    )
    partition.logs.retire(deleted)
    for segment in deleted:
        segment.remove()
    return len(deleted)


def test_by_size(make_partition):
    partition = make_partition(retention_bytes=2000)
    fill(partition, 8)
    assert partition.log.segment_count == 4
    segment_bytes = partition.bytes_of(".log").size()
    assert expire(partition) == 1
    assert partition.log.log_start_offset == 2
    assert partition.log.size_bytes == 3 * segment_bytes
    assert expire(partition) == 0


def test_segment_expires_by_its_youngest_record(make_partition, now):
    partition = make_partition(retention_ms=1000)
    for n in range(6):
        partition.append(b"v" * 400, timestamps=[now + n])
    assert expire(partition, now + 1001) == 0
    assert expire(partition, now + 1002) == 1
    assert partition.log.log_start_offset == 2
    partition.restart()
    assert expire(partition, now + 1004) == 1
    assert partition.values() == [b"v" * 400] * 2


def test_active_segment_expires_when_all_its_records_are_old(make_partition, now):
    partition = make_partition(retention_ms=1000)
    fill(partition, 3)
    assert expire(partition, now + 2000) == 2
    log = partition.log
    assert (log.log_start_offset, log.log_end_offset, log.segment_count, log.size_bytes) == (3, 3, 1, 0)
    assert expire(partition, now + 9000) == 0
    partition.append(b"next")
    partition.restart()
    assert partition.records() == [(3, b"next", now)]


@pytest.mark.parametrize("offline", [False, True])
def test_expired_segments_are_deleted_when_a_full_disk_prevents_a_roll(make_partition, now, monkeypatch, offline):
    partition = make_partition(retention_ms=1000)
    fill(partition, 7)
    partition.log.syncing.whole()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(MemoryFile, "pwrite", full)
        if offline:
            with pytest.raises(KafkaError):
                partition.append(b"w")
        before = partition.log.segment_count
        assert len(partition.log.retention.delete_expired(now + 2000, 7)) == before - 1
    assert partition.log.segment_count == 1


def test_young_record_keeps_its_segment_and_all_later_ones(make_partition, now):
    partition = make_partition(retention_ms=1000)
    partition.append(b"v" * 400, timestamps=[now + 500])
    fill(partition, 5)
    assert expire(partition, now + 1200) == 0


def test_retention_ms_minus_one_keeps_everything(make_partition, now):
    partition = make_partition(retention_ms=-1, retention_bytes=-1)
    fill(partition, 5)
    assert expire(partition, now * 2) == 0


def test_retention_never_deletes_above_the_high_watermark(make_partition, now):
    partition = make_partition(retention_ms=1, retention_bytes=0)
    fill(partition, 6)
    assert expire(partition, now + 9999, high_watermark=3) == 1
    assert partition.log.log_start_offset == 2
    assert expire(partition, now + 9999, high_watermark=5) == 1
    assert expire(partition, now + 9999, high_watermark=6) == 1


def test_retention_of_a_compacted_topic_only_removes_segments_below_the_log_start(make_partition, now):
    partition = make_partition(cleanup_policy=frozenset({"compact"}), retention_ms=1, retention_bytes=1)
    fill(partition, 6)
    assert expire(partition, now + 9999) == 0
    partition.log.advance_log_start(5)
    assert expire(partition, now + 9999) == 2
    assert partition.log.log_start_offset == 5


def test_delete_records_may_end_inside_a_batch(partition):
    partition.append(b"a", b"b", b"c")
    partition.append(b"d")
    partition.log.advance_log_start(1)
    assert partition.values() == [b"b", b"c", b"d"]
    partition.log.advance_log_start(0)
    assert partition.log.log_start_offset == 1
    with pytest.raises(KafkaError) as beyond:
        partition.log.advance_log_start(5)
    assert beyond.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    partition.restart()
    assert partition.values() == [b"b", b"c", b"d"]
    partition.log.advance_log_start(4)
    assert partition.values() == []
    partition.logs.write_checkpoints()
    partition.crash()
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (4, 4)


def test_expired_files_are_renamed_and_deleted_later(make_partition):
    partition = make_partition(retention_bytes=0)
    fill(partition, 4)
    deleted = partition.log.retention.delete_expired(partition.wall_ms, 4)
    assert partition.names(".deleted") == []
    partition.logs.retire(deleted)
    assert len(partition.names(".deleted")) == 7  # two segments with two indexes each, and a producer snapshot
    assert partition.disk.read("log-start-offset-checkpoint") == b"0\n1\norders 0 4\n"
    partition.crash()
    assert partition.names(".deleted") == []
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (4, 4)


def test_expired_segments_stay_deleted_after_a_crash_before_the_rename(make_partition):
    partition = make_partition(retention_bytes=0)
    fill(partition, 4)
    partition.log.retention.delete_expired(partition.wall_ms, 4)
    partition.logs.write_checkpoints()
    partition.crash()
    assert partition.log.log_start_offset == 4
    assert partition.names(".log") == ["00000000000000000004.log"]


def test_leader_epochs_follow_the_log_start(partition):
    for epoch in range(4):
        partition.append(b"a", b"b", leader_epoch=epoch)
    partition.log.advance_log_start(5)
    assert partition.log.leader_epochs.entries() == [(2, 5), (3, 6)]
    assert partition.log.end_offset_for_epoch(0) == (0, 5)


def test_delayed_deletion_of_expired_segments_does_not_remove_a_restarted_log(make_partition):
    partition = make_partition(retention_bytes=0)
    fill(partition, 6)
    expired = partition.log.retention.delete_expired(partition.wall_ms, 6)
    partition.log.truncation.fully_and_start_at(2)
    partition.append(b"anew")
    partition.logs.retire(expired)  # as a slow thread would do
    for segment in expired:
        segment.remove()
    partition.crash()
    assert partition.values() == [b"anew"]


def test_expired_segments_do_not_reappear_after_a_log_restarted(make_partition):
    partition = make_partition(retention_bytes=0)
    fill(partition, 6)
    partition.log.retention.delete_expired(partition.wall_ms, 6)
    partition.log.truncation.fully_and_start_at(1)
    partition.append(b"anew")
    partition.crash()
    assert partition.values() == [b"anew"]
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (1, 2)
