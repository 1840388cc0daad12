"""A data directory with many logs: create, delete, put aside, restart."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from random import Random

import pytest

from odradek.adapters.disk import OsDisk
from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import KafkaError
from odradek.base.ids import TopicId, TopicPartition
from odradek.log.checkpoints import RECOVERY_POINTS, decode_offsets, encode_offsets, encode_topic_id
from odradek.log.durability import Durability
from odradek.protocol.batch import LOG_OVERHEAD, OFFSET_LENGTH_EPOCH, encode_batch
from odradek.protocol.records import Record
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs

OTHER_ID = TopicId(b"o" * 16)


def _folders(partition):
    return [name for name in partition.disk.listdir("") if not name.endswith("-checkpoint")]


def test_log_keeps_its_topic_id_after_a_restart(partition):
    partition.append(b"a")
    partition.restart()
    assert partition.log.topic_id == bytes(range(16))
    same = partition.logs.create_log(partition.log.topic_partition, partition.log.topic_id, partition.config, 0)
    assert same is partition.log


def test_log_of_another_topic_with_the_same_name_is_put_aside(partition):
    partition.append(b"old")
    partition.restart()
    old = partition.log
    log = partition.logs.create_log(old.topic_partition, OTHER_ID, partition.config, 0)
    assert (log.topic_id, log.log_end_offset) == (OTHER_ID, 0)
    stray = f"orders-0.{1:032x}-stray"
    assert old.directory == stray
    assert b"old" in partition.disk.read(f"{stray}/00000000000000000000.log")
    assert old.offline
    partition.restart()
    assert partition.log.topic_id == OTHER_ID
    assert partition.disk.exists(stray)


def test_log_without_topic_id_is_put_aside(partition):
    partition.append(b"old")
    partition.disk.replace("orders-0/partition.metadata", b"")
    partition.crash()
    assert partition.log.topic_id is None
    log = partition.logs.create_log(partition.log.topic_partition, OTHER_ID, partition.config, 0)
    assert log.log_end_offset == 0


def test_deleted_log_disappears_at_once_and_its_files_at_the_next_start(partition):
    partition.append(b"a")
    region = partition.log.read(0, 1000, 1, True)
    directory = partition.logs.mark_deleted(partition.log.topic_partition)
    assert directory == f"orders-0.{1:032x}-delete"
    assert partition.logs.logs == {}
    assert _folders(partition) == [directory]
    assert b"a" in region.read()
    region.release()
    partition.crash()
    assert _folders(partition) == []
    assert partition.log is None


def test_deleted_topic_can_be_created_again_at_once(partition):
    partition.append(b"a")
    directory = partition.logs.mark_deleted(partition.log.topic_partition)
    log = partition.logs.create_log(partition.log.topic_partition, OTHER_ID, partition.config, 0)
    assert log.log_end_offset == 0
    partition.logs.remove_deleted(directory)
    assert _folders(partition) == ["orders-0"]


def test_directory_names_of_long_topic_names_stay_within_the_limit(partition):
    topic = "t" * 249
    partition.logs.create_log(TopicPartition(topic, 12345), OTHER_ID, partition.config, 0)
    assert len(partition.logs.mark_deleted(TopicPartition(topic, 12345))) == 255


def test_unknown_files_in_the_data_directory_are_ignored(partition):
    partition.disk.make_dir("__cluster_metadata-0")
    partition.disk.make_dir("lost+found")
    partition.disk.replace("meta.properties", b"")
    partition.crash()
    assert list(partition.logs.logs) == [TopicPartition("orders", 0)]
    partition.restart()
    assert partition.disk.listdir("__cluster_metadata-0") == []


def test_topics_with_dashes_and_dots(partition):
    tricky = TopicPartition("a-1.b_2-", 7)
    partition.logs.create_log(tricky, OTHER_ID, partition.config, 0)
    partition.crash()
    assert partition.logs.get(tricky).topic_id == OTHER_ID


def test_on_a_real_disk_with_few_descriptors(make_partition, tmp_path):
    partition = make_partition(OsDisk(str(tmp_path), descriptors=3))
    logs = [partition.logs.create_log(TopicPartition("t", n), OTHER_ID, partition.config, 0) for n in range(10)]
    for _ in range(4):
        for n in range(30):
            log, partition.log = partition.log, logs[n % 10]
            partition.append(b"%02d" % n * 100)
            partition.log = log
    assert partition.disk.open_descriptors() <= 3
    for n, log in enumerate(logs):
        partition.log = log
        assert partition.values() == [b"%02d" % n * 100, b"%02d" % (n + 10) * 100, b"%02d" % (n + 20) * 100] * 4
    partition.log = logs[0]
    partition.restart()
    assert partition.logs.stopped_cleanly
    assert all(log.log_end_offset == 12 for tp, log in partition.logs.logs.items() if tp.topic == "t")


def test_high_watermarks_survive_a_restart(partition):
    partition.logs.write_checkpoints()
    partition.logs.write_high_watermarks({partition.log: 12})
    partition.crash()
    assert partition.logs.high_watermarks == {TopicPartition("orders", 0): 12}


@pytest.mark.parametrize("stop", ["crash", "restart"])
def test_high_watermarks_of_new_topics_survive_a_restart(partition, stop):
    partition.append(b"a", b"b", b"c")
    partition.log.syncing.whole()
    partition.logs.write_high_watermarks({partition.log: 3})
    getattr(partition, stop)()
    assert partition.logs.high_watermarks == {partition.log.topic_partition: 3}


def _delete_and_create_again(partition):
    name = partition.log.topic_partition
    partition.logs.mark_deleted(name)
    partition.log = partition.logs.create_log(name, OTHER_ID, partition.config, 0)
    partition.append(b"new")


def _succeed_a_longer_log(partition):
    for value in (b"a", b"b", b"c"):
        partition.append(value)
    partition.log.advance_log_start(2)
    partition.log.syncing.whole()
    partition.logs.write_checkpoints()
    partition.logs.write_high_watermarks({partition.log: 3})
    _delete_and_create_again(partition)


@pytest.mark.parametrize("stops", [["crash"], ["crash", "crash"], ["restart"], ["crash", "restart"]])
def test_checkpoints_of_a_deleted_log_do_not_apply_to_a_new_log_with_its_name(partition, stops):
    _succeed_a_longer_log(partition)
    for stop in stops:
        getattr(partition, stop)()
        assert (partition.log.log_start_offset, partition.values()) == (0, [b"new"])
        assert partition.logs.high_watermarks.get(partition.log.topic_partition, 0) <= 1
    partition.append(b"newer")
    partition.crash()
    assert partition.values() == [b"new", b"newer"]


@pytest.mark.parametrize("written_meanwhile", [False, True])
def test_checkpoints_of_a_removed_replica_do_not_apply_when_it_returns(partition, written_meanwhile):
    """The topic is the same, the log is not: the recovery point of the old log does not apply to the new one."""
    for value in (b"a", b"b", b"c"):
        partition.append(value)
    partition.log.syncing.whole()
    partition.logs.write_checkpoints()
    name, topic_id = partition.log.topic_partition, partition.log.topic_id
    partition.logs.mark_deleted(name)
    if written_meanwhile:
        partition.logs.write_checkpoints()
    partition.log = partition.logs.create_log(name, topic_id, partition.config, 0)
    is_judged_by_itself(partition)


def test_checkpoints_of_a_removed_replica_do_not_apply_when_it_returns_to_a_full_disk(partition, monkeypatch):
    partition.append(b"a", b"b", b"c")
    partition.log.syncing.whole()
    partition.logs.write_checkpoints()
    name, topic_id = partition.log.topic_partition, partition.log.topic_id
    partition.logs.mark_deleted(name)
    with monkeypatch.context() as full:
        full.setattr(partition.disk, "replace", _no_space)
        with pytest.raises(OSError, match="No space"):
            partition.logs.create_log(name, topic_id, partition.config, 0)
    partition.log = partition.logs.create_log(name, topic_id, partition.config, 0)
    is_judged_by_itself(partition)


def test_cleaner_checkpoint_of_a_deleted_log_does_not_apply_to_a_new_log(make_partition):
    """Otherwise tombstones of the new log would expire before they were compacted."""
    partition = make_partition(cleanup_policy=frozenset({"compact"}), segment_bytes=5000)
    for n in range(6):
        partition.put((b"a", b"%d" % n))
    partition.roll()
    partition.put((b"z", b"1"))
    assert partition.clean()
    _delete_and_create_again(partition)
    partition.crash()
    partition.logs.write_checkpoints()
    partition.crash()
    assert partition.log.cleaned_until is None


def test_checkpoints_do_not_apply_to_a_log_without_topic_id(partition):
    partition.append(b"a", b"b", b"c")
    partition.log.syncing.whole()
    partition.log.advance_log_start(2)
    partition.logs.write_checkpoints()
    partition.disk.remove("orders-0/partition.metadata")
    for _ in range(2):
        partition.crash()
        assert (partition.log.recovery_point, partition.log.log_start_offset) == (0, 0)


def _no_space(*_):
    raise OSError(28, "No space left on device")


def test_checkpoints_apply_again_after_they_are_rewritten(partition):
    _succeed_a_longer_log(partition)
    partition.append(b"newer")
    partition.log.advance_log_start(1)
    partition.logs.write_checkpoints()
    partition.crash()
    assert (partition.log.log_start_offset, partition.values()) == (1, [b"newer"])


def _expire_elsewhere(partition):
    other = partition.logs.create_log(TopicPartition("t", 0), OTHER_ID, partition.config, 0)
    partition.log, log = other, partition.log
    for n in range(20):
        partition.append(b"%03d" % n * 50)
    partition.configure(retention_bytes=0)
    partition.logs.retire(other.retention.delete_expired(partition.wall_ms, other.log_end_offset))
    partition.log = log


def test_log_start_written_by_retention_does_not_apply_to_a_recreated_log(partition):
    partition.append(b"a", b"b", b"c")
    partition.log.advance_log_start(2)
    _expire_elsewhere(partition)
    _delete_and_create_again(partition)
    partition.crash()
    assert (partition.log.log_start_offset, partition.values()) == (0, [b"new"])


def test_high_watermark_of_a_deleted_log_does_not_apply_to_a_recreated_log(partition):
    partition.append(b"a", b"b", b"c")
    partition.logs.write_high_watermarks({partition.log: 3})
    _delete_and_create_again(partition)
    partition.crash()
    assert partition.logs.high_watermarks == {}
    partition.logs.write_checkpoints()
    partition.crash()
    assert partition.logs.high_watermarks == {}


def test_late_high_watermark_is_not_written_for_another_topic(partition):
    partition.append(b"a", b"b", b"c")
    late = {partition.log: 3}
    _delete_and_create_again(partition)
    partition.logs.write_checkpoints()
    partition.logs.write_high_watermarks(late)
    partition.crash()
    assert partition.logs.high_watermarks == {}


class BusyDisk(MemoryDisk):
    """Runs a callback right after one of the files was replaced."""

    meanwhile: dict[str, Callable[[], None]]

    def replace(self, path, data):
        super().replace(path, data)
        self.meanwhile.pop(path, lambda: None)()


@pytest.mark.parametrize("checkpoint", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
@pytest.mark.parametrize("known_before", [False, True])
def test_topic_is_recreated_while_checkpoints_are_written(make_partition, checkpoint, known_before):
    disk = BusyDisk()
    disk.meanwhile = {}
    partition = make_partition(disk)
    partition.append(b"a", b"b", b"c")
    if known_before:
        partition.logs.write_checkpoints()
    partition.log.advance_log_start(2)
    partition.log.syncing.whole()
    disk.meanwhile = {checkpoint: lambda: _delete_and_create_again(partition)}
    partition.logs.write_checkpoints()
    assert not disk.meanwhile
    partition.crash()
    assert (partition.log.log_start_offset, partition.values()) == (0, [b"new"])


class SlowDisk(MemoryDisk):
    """Runs a callback in another thread right before a file is replaced, and waits for it only briefly."""

    meanwhile: dict[str, threading.Thread]

    def replace(self, path, data):
        other = self.meanwhile.pop(path, None)
        if other is not None:
            other.start()
            other.join(0.2)
        super().replace(path, data)


def test_truncation_during_a_checkpoint_write_is_written_last(make_partition):
    disk = SlowDisk()
    disk.meanwhile = {}
    partition = make_partition(disk)
    partition.append(b"a")
    partition.append(b"b")
    partition.log.syncing.whole()
    cut = threading.Thread(target=lambda: partition.log.truncation.to(1))
    disk.meanwhile = {RECOVERY_POINTS: cut}
    partition.logs.write_checkpoints()
    cut.join()
    assert decode_offsets(disk.read(RECOVERY_POINTS)) == {partition.log.topic_partition: 0}


def test_segments_kept_by_retention_stay_in_a_log_that_was_never_synced(partition):
    _succeed_a_longer_log(partition)
    for n in range(20):
        partition.append(b"%03d" % n * 50)
    partition.configure(retention_bytes=1000)
    partition.logs.retire(partition.log.retention.delete_expired(partition.wall_ms, partition.log.log_end_offset))
    kept = partition.records()
    assert kept[0][0] > 0
    partition.crash()
    assert partition.records() == kept


def test_power_cut_never_applies_old_checkpoints_to_a_new_log(make_partition):
    """For any unsynced names that remain: the old recovery point never applies to the new log."""
    for seed in range(60):
        disk = SimDisk(Random(seed), DiskKnobs(survival=0.7))
        partition = make_partition(disk.mount())
        for n in range(60):
            partition.append(b"%03d" % n * 50)
        partition.log.syncing.whole()
        partition.logs.write_checkpoints()
        _delete_and_create_again(partition)
        for n in range(20):
            partition.append(b"%03d" % n * 50)
        disk.power_cut()
        partition.disk = disk.mount()
        partition.crash()
        if partition.log is not None and partition.log.topic_id == OTHER_ID:
            assert partition.log.log_start_offset == 0
            assert [offset for offset, _, _ in partition.records()] == list(range(partition.log.log_end_offset))


def test_log_restarted_at_the_leaders_log_start_keeps_it_after_a_power_cut(make_partition):
    """A follower restarts at its leader's log start and is in sync at once, because there is nothing to fetch."""
    for seed in range(40):
        disk = SimDisk(Random(seed), DiskKnobs(survival=0.5))
        partition = make_partition(disk.mount())
        partition.log.truncation.fully_and_start_at(10)
        disk.power_cut()
        partition.disk = disk.mount()
        partition.crash()
        assert partition.log is not None
        assert (partition.log.topic_id is not None, partition.log.log_start_offset) == (True, 10)


def is_judged_by_itself(partition):
    """Little of the new log is synced: after a crash recovery reads all of it."""
    partition.append(b"new", leader_epoch=0)
    partition.log.syncing.whole()
    for epoch in (1, 2, 3):
        partition.append(b"new", leader_epoch=epoch)
        partition.roll()
    partition.crash()
    assert partition.log.leader_epochs.entries() == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert partition.values() == [b"new"] * 4


def test_checkpoints_of_a_killed_kafka_apply_to_logs_that_it_created(make_partition, monkeypatch):
    """Kafka compacts also above its recovery points: a gap is no loss, at the first start and after a later crash."""
    partition = make_partition(cleanup_policy=frozenset({"compact"}))
    partition.append(b"ours")
    partition.logs.close(broker_epoch=7)
    disk = partition.disk
    disk.remove(".kafka_cleanshutdown")
    disk.make_dir("kafkas-0")
    for base_offset in (0, 5):
        batch = bytearray(encode_batch([Record(key=b"k", value=b"theirs")]))
        OFFSET_LENGTH_EPOCH.pack_into(batch, 0, base_offset, len(batch) - LOG_OVERHEAD, 0)
        disk.open(f"kafkas-0/{base_offset:020d}.log", create=True).pwrite(batch, 0)
    disk.replace("kafkas-0/partition.metadata", encode_topic_id(OTHER_ID))
    theirs = TopicPartition("kafkas", 0)
    disk.replace(RECOVERY_POINTS, encode_offsets({partition.log.topic_partition: 1, theirs: 0}))
    with monkeypatch.context() as full:
        full.setattr(Durability, "begin", _no_space)
        # The start fails: otherwise a log that is not durable yet would be reopened as one of ours.
        with pytest.raises(KafkaError, match="No space"):
            partition.crash()
    for _ in range(2):
        partition.crash()
        assert partition.values() == [b"ours"]
        assert partition.logs.get(theirs).log_end_offset == 6


def _no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
