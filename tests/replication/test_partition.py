"""One partition: what advances its high watermark, and which callbacks run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from odradek.base.invariants import InvariantBroken
from odradek.log.config import LogConfig
from odradek.log.directory import LogDirectory
from odradek.metadata.image import PartitionImage
from odradek.protocol.batch import iter_records, read_header
from odradek.protocol.compression import Codec
from odradek.replication.isolation import FetchIsolation
from odradek.replication.partition import Partition
from support.admin_broker import SeededRng
from support.data_broker import batch

ME, OTHER = BrokerId(1), BrokerId(2)
NAME = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000
PLAIN = LogConfig()


class Reader:
    def __init__(self) -> None:
        self.told = 0

    def may_read_more(self, partition) -> None:
        self.told += 1


class Life:
    """A partition, its requested syncs, and a log directory to restart from."""

    def __init__(self, config=PLAIN, *, high_watermark=0, disk=None, min_isr=1) -> None:
        self.disk = disk or MemoryDisk()
        self.logs = LogDirectory(self.disk, SeededRng())
        self.logs.load(lambda _: config, NOW_MS)
        self.sync_requests: list[Partition] = []
        self.partition = Partition(
            broker_id=ME,
            topic="t",
            index=0,
            topic_id=TopicId(bytes(16)),
            log=self.logs.create_log(NAME, TopicId(bytes(16)), config, NOW_MS),
            high_watermark=Offset(high_watermark),
            min_isr=min_isr,
            request_sync=self.sync_requests.append,
        )

    def lead(self, epoch=0, *, isr=(ME,), partition_epoch=0):
        self.partition.apply(image(leader=ME, epoch=epoch, isr=isr, partition_epoch=partition_epoch), now_ms=0)
        return self

    def append(self, *values, acks=1):
        return self.partition.append(memoryview(batch(*values, timestamp=NOW_MS)), acks, NOW_MS)

    def sync(self, *, again=False):
        work = self.partition.log.syncing.begin()
        work.run()
        self.partition.log.syncing.finish(work)
        self.partition.synced(work.offset, again=again)


def image(*, leader, epoch=0, isr=(ME,), partition_epoch=0):
    return PartitionImage(
        index=0,
        replicas=(ME, OTHER),
        isr=isr,
        leader=leader,
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=partition_epoch,
    )


def refused(call, *args, **kwargs):
    with pytest.raises(KafkaError) as refusal:
        call(*args, **kwargs)
    return refusal.value.code


def test_only_a_leader_appends_and_reads():
    life = Life()
    assert refused(life.append, "x") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused(life.partition.append_internal, batch("x"), NOW_MS) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (
        life.partition.read(0, 100, -1, FetchIsolation.HIGH_WATERMARK, whole_first_batch=True).error_code
        == ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    life.lead()
    assert life.append("x", "y").base_offset == 0
    assert life.partition.append_internal(batch("z", timestamp=NOW_MS), NOW_MS).base_offset == 2
    assert life.partition.high_watermark == life.partition.last_stable_offset == 3


def test_coordinator_batch_is_stored_with_the_codec_of_its_topic():
    life = Life().lead()
    life.partition.log.configure(replace(life.partition.log.config, compression_type="lz4"))
    life.partition.append_internal(batch("a", timestamp=NOW_MS), NOW_MS)
    data = life.partition.log.read(0, 2**20, 1, True).read()
    assert (read_header(data).codec, [record.value for record in iter_records(data)]) == (Codec.LZ4, [b"a"])


def test_single_leader_commits_its_log_end():
    life = Life().lead()
    committed = []
    life.partition.when_committed(1, committed.append)
    life.append("a")
    assert committed == []
    life.append("b")
    assert committed == [ErrorCode.NONE]
    life.partition.when_committed(1, committed.append)
    assert committed == [ErrorCode.NONE] * 2


def test_commit_callbacks_run_in_offset_order():
    life = Life(LogConfig(flush_messages=1)).lead()
    told = []
    for offset in (2, 0, 1):
        life.partition.when_committed(offset, lambda _, offset=offset: told.append(offset))
    life.append("a", "b", "c")
    assert told == []
    life.sync()
    assert told == [0, 1, 2]


def test_readers_are_notified_once_per_high_watermark_advance():
    life = Life().lead()
    reader = Reader()
    life.partition.readers[reader] = None
    life.append("a")
    life.append("b")
    assert reader.told == 2
    life.partition.deleted()
    assert reader.told == 3


def test_high_watermark_stops_before_a_batch_that_waits_for_its_fsync():
    life = Life(LogConfig(flush_messages=3)).lead()
    partition = life.partition
    life.append("a", "b")
    assert (partition.high_watermark, life.sync_requests) == (2, [])
    life.append("c")
    assert (partition.high_watermark, life.sync_requests) == (2, [partition])
    assert partition.is_synced(1)
    assert not partition.is_synced(2)
    work = partition.log.syncing.begin()
    work.run()
    life.append("d")
    assert partition.high_watermark == 2
    partition.log.syncing.finish(work)
    partition.synced(work.offset, again=True)
    assert (partition.high_watermark, partition.is_synced(2), partition.is_synced(3)) == (3, True, False)
    life.sync()
    assert partition.high_watermark == 4


def test_sync_of_older_segments_does_not_commit_unsynced_records():
    life = Life(LogConfig(flush_messages=2)).lead()
    life.append("a")
    life.append("b")
    life.partition.synced(0, again=True)
    assert (life.partition.high_watermark, life.partition.is_synced(0), life.partition.is_synced(1)) == (1, True, False)


def test_record_appended_in_a_sync_callback_waits_for_the_next_sync():
    life = Life(LogConfig(flush_messages=1)).lead()
    told = []

    def another_from_the_backlog(_):
        later = life.append("b")
        life.partition.when_synced(later.last_offset, lambda _: told.append("b"))
        told.append("a")

    life.partition.when_synced(life.append("a").last_offset, another_from_the_backlog)
    life.sync()
    assert told == ["a"]
    life.sync()
    assert told == ["a", "b"]


def test_unsynced_records_after_a_crash_are_not_readable_before_a_sync():
    config = LogConfig(flush_messages=1)
    before = Life(config).lead()
    before.append("kept in memory by a kill, lost by a power cut")
    after = Life(config, disk=before.disk).lead(epoch=1)
    assert after.partition.log.log_end_offset == 1
    assert (after.partition.high_watermark, after.sync_requests) == (0, [after.partition])
    after.sync()
    assert after.partition.high_watermark == 1


def test_a_checkpointed_high_watermark_never_exceeds_the_log():
    assert Life(high_watermark=7).partition.high_watermark == 0


def test_min_isr_applies_only_to_acks_all():
    life = Life(min_isr=2).lead()
    assert refused(life.append, "x", acks=-1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert refused(life.partition.append_internal, batch("x"), NOW_MS) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert life.append("x", acks=1).base_offset == 0
    life.partition.configure(LogConfig(), 1)
    assert life.append("x", acks=-1).base_offset == 1


def test_waiting_callbacks_get_an_error_when_the_partition_is_lost():
    for end, code in (
        (
            lambda life: life.partition.apply(image(leader=OTHER, epoch=1, partition_epoch=1), 0),
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ),
        (lambda life: life.partition.deleted(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda life: life.partition.sync_failed(), ErrorCode.KAFKA_STORAGE_ERROR),
    ):
        life = Life(LogConfig(flush_messages=1)).lead()
        life.append("x")
        told = []
        life.partition.when_committed(0, told.append)
        life.partition.when_synced(0, told.append)
        end(life)
        assert told == [code, code]


def test_sync_request_for_a_removed_log_fails_at_once():
    """A fetcher syncs one replica after another. While it waits for the first, the second may be moved away."""
    life = Life(LogConfig(flush_messages=1)).lead()
    life.append("x")
    life.partition.deleted()
    life.partition.log.release()
    told = []
    life.partition.when_synced(0, told.append)
    assert told == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_forgotten_callback_is_not_called():
    life = Life(LogConfig(flush_messages=1)).lead()
    life.append("x")
    told = []
    forgotten, kept = lambda code: told.append("forgotten"), lambda code: told.append("kept")
    for callback in (forgotten, kept):
        life.partition.when_committed(0, callback)
    life.partition.forget(forgotten)
    life.sync()
    assert told == ["kept"]


def test_callback_may_forget_another_callback():
    life = Life(LogConfig(flush_messages=1)).lead()
    told = []

    def second(_):
        told.append("second")

    def third(_):
        told.append("third")

    def first(_):
        told.append("first")
        life.partition.forget(third)

    appended = life.append("x")
    for callback in (first, second, third):
        life.partition.when_committed(appended.last_offset, callback)
    life.sync()
    life.append("y")
    life.sync()
    assert told == ["first", "second"]


def test_leader_epoch_never_decreases():
    life = Life().lead(epoch=3)
    with pytest.raises(InvariantBroken):
        life.lead(epoch=2, partition_epoch=1)


def test_records_carry_the_epoch_of_the_leader_that_wrote_them():
    life = Life().lead(epoch=3)
    life.append("a")
    life.lead(epoch=5, partition_epoch=1)
    log = life.partition.log
    assert log.end_offset_for_epoch(5) == (5, 1)
    life.append("b")
    assert log.end_offset_for_epoch(3) == (3, 1)
    assert log.end_offset_for_epoch(4) == (3, 1)
    assert log.end_offset_for_epoch(5) == (5, 2)


def test_read_returns_records_only_below_the_high_watermark():
    life = Life(LogConfig(flush_messages=1)).lead()
    life.append("a")
    life.sync()
    life.append("b")
    partition = life.partition
    seen = partition.read(0, 10_000, -1, FetchIsolation.HIGH_WATERMARK, whole_first_batch=True)
    assert (seen.error_code, seen.high_watermark, seen.log_start_offset) == (ErrorCode.NONE, 1, 0)
    assert seen.records.length == len(batch("a", timestamp=NOW_MS))
    seen.records.release()
    above = partition.read(1, 10_000, -1, FetchIsolation.HIGH_WATERMARK, whole_first_batch=True)
    assert (above.error_code, above.records) == (ErrorCode.NONE, None)
    beyond = partition.read(3, 10_000, -1, FetchIsolation.HIGH_WATERMARK, whole_first_batch=True)
    assert (beyond.error_code, beyond.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (KafkaError(ErrorCode.CORRUPT_MESSAGE), ErrorCode.CORRUPT_MESSAGE),
        (OSError(5, "input/output error"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_read_error_of_a_log_is_returned_for_its_partition(monkeypatch, failure, code):
    def fails(*args):
        raise failure

    life = Life().lead()
    life.append("a")
    monkeypatch.setattr(type(life.partition.log), "read", fails)
    assert life.partition.read(0, 100, -1, FetchIsolation.HIGH_WATERMARK, whole_first_batch=True).error_code == code
