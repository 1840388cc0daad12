"""A follower and its leader's replies: catching up, truncation by epoch, restarting empty, and invalid batches."""

from __future__ import annotations

from random import Random

import pytest

from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.errors import ErrorCode, KafkaError
from odradek.log.cleaning import clean
from odradek.log.config import LogConfig
from odradek.log.segment import Segment
from odradek.protocol.batch import encode_batch, iter_batches
from odradek.protocol.fetch_response import DivergingEpoch, FetchedPartition
from odradek.protocol.records import Record
from odradek.replication.following import Verdict, position, take
from odradek.replication.partition import Partition
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs
from support.data_broker import batch
from support.replicas import WALL_MS, Node, Replicas
from support.steps import finished


def test_follower_log_has_the_same_bytes_as_the_leader_log():
    replicas = Replicas()
    for value in "abc":
        replicas[1].append(value, value * 2)
    replicas.catch_up(2, 3)
    assert replicas[1].high_watermark == 6
    assert replicas[1].raw() == replicas[2].raw() == replicas[3].raw()
    assert replicas[2].log.leader_epochs.entries() == [(0, 0)]


def test_follower_high_watermark_is_the_leaders_but_at_most_its_own_log_end():
    replicas = Replicas(3, isr=(1,))
    replicas[1].append("a")
    replicas[1].append("b")
    one_batch = len(batch("a"))
    replicas.fetch(2, max_bytes=one_batch)
    assert (replicas[1].high_watermark, replicas[2].end, replicas[2].high_watermark) == (2, 1, 1)
    replicas.fetch(2)
    assert replicas[2].high_watermark == 2


def test_follower_keeps_its_high_watermark_when_a_new_leader_has_a_lower_one():
    """The high watermark of a new leader may lag. Records that a follower knows as committed stay committed."""
    replicas = Replicas()
    replicas[1].append("a")
    replicas.fetch(2)
    replicas.fetch(3)
    replicas.fetch(2)
    replicas.fetch(3)
    assert [replicas[node].high_watermark for node in (1, 2, 3)] == [1, 0, 1]
    replicas.elect(2, isr=(2, 3))
    replicas.fetch(3)
    assert replicas[3].high_watermark == 1
    assert replicas[2].high_watermark == 1  # the last ISR member has fetched


def test_follower_log_start_follows_the_leaders_log_start():
    replicas = Replicas(2)
    for value in "abc":
        replicas[1].append(value)
    replicas.catch_up(2)
    replicas[1].log.advance_log_start(2)
    replicas.fetch(2)
    assert replicas[2].log.log_start_offset == 2


def test_reader_of_a_follower_is_notified_when_its_high_watermark_advances():
    replicas = Replicas(2)
    told = []

    class Reader:
        def may_read_more(self, partition: Partition) -> None:
            told.append(partition.high_watermark)

    replicas[2].partition.readers[Reader()] = None
    replicas[1].append("a")
    replicas.catch_up(2)
    assert told == [1]


def test_a_corrupt_batch_is_never_stored():
    replicas = Replicas(2)
    replicas[1].append("a")
    replicas[1].append("b")
    answer = replicas.answer(2)
    damaged = bytearray(answer.records)
    damaged[-1] ^= 1
    answer.records = memoryview(damaged)
    partition = replicas[2].partition
    assert take(partition, position(partition), answer, WALL_MS) is Verdict.RETRY
    assert replicas[2].values() == ["a"]
    replicas.catch_up(2)
    assert replicas[2].raw() == replicas[1].raw()


def test_a_batch_that_does_not_continue_the_log_is_never_stored():
    replicas = Replicas(2)
    replicas[1].append("a")
    replicas.catch_up(2)
    partition = replicas[2].partition
    stray = FetchedPartition(0, 0, 1, 1, 0, memoryview(batch("x", base_offset=0, leader_epoch=0)))
    assert take(partition, position(partition), stray, WALL_MS) is Verdict.RETRY
    assert replicas[2].values() == ["a"]


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_follower_accepts_gaps_of_a_compacted_leader_log(policy):
    replicas = Replicas(2, config=LogConfig(cleanup_policy=frozenset({policy})))
    partition = replicas[2].partition
    sparse = FetchedPartition(0, 0, 8, 8, 0, memoryview(batch("x", base_offset=7, leader_epoch=0)))
    assert take(partition, position(partition), sparse, WALL_MS) is Verdict.GO_ON
    assert replicas[2].end == 8


def test_a_batch_of_a_later_epoch_than_the_followed_one_is_not_stored():
    """KAFKA-18723: the leader's log was truncated and rewritten while its old reply was in flight."""
    replicas = Replicas(2)
    partition = replicas[2].partition
    both = bytes(batch("a", leader_epoch=0)) + bytes(batch("b", base_offset=1, leader_epoch=1))
    answer = FetchedPartition(0, 0, 2, 2, 0, memoryview(both))
    assert take(partition, position(partition), answer, WALL_MS) is Verdict.GO_ON
    assert replicas[2].values() == ["a"]


def test_reply_to_an_outdated_fetch_is_ignored():
    replicas = Replicas(2)
    replicas[1].append("a")
    asked = position(replicas[2].partition)
    answer = replicas.answer(2)
    replicas.elect(1)
    assert take(replicas[2].partition, asked, answer, WALL_MS) is Verdict.GO_ON
    assert replicas[2].end == 0
    again = replicas.answer(2)
    replicas.fetch(2)
    assert take(replicas[2].partition, position(replicas[2].partition)._replace(offset=0), again, WALL_MS)
    assert replicas[2].values() == ["a"]


def test_former_leader_truncates_records_that_were_never_replicated():
    replicas = Replicas()
    replicas[1].append("a")
    replicas.catch_up(2, 3)
    replicas[1].append("never replicated")
    replicas.elect(2, isr=(2, 3))
    replicas[2].append("b")
    replicas.catch_up(1, 3)
    assert replicas[1].raw() == replicas[2].raw() == replicas[3].raw()
    assert replicas[1].values() == ["a", "b"]


def test_kip_101_restarted_follower_keeps_fetched_records():
    """It has m2 but not the high watermark above it, and the leader dies before the next fetch. m2 was acknowledged."""
    replicas = Replicas(2)
    replicas[1].append("m1")
    replicas.catch_up(2)
    replicas[1].append("m2")
    replicas.fetch(2)
    acknowledged = []
    replicas[1].partition.when_committed(1, acknowledged.append)
    replicas.answer(2)  # its next fetch commits m2; the reply is lost
    assert acknowledged == [ErrorCode.NONE]
    replicas[2].restart()
    replicas.register(2)
    replicas.tell(2)
    replicas.fetch(2)  # before the other dies, it fetches once
    assert replicas[2].values() == ["m1", "m2"]
    replicas.elect(2, isr=(2,))
    assert replicas[2].values() == ["m1", "m2"]
    assert replicas[2].high_watermark == 2


def test_kip_101_former_leader_keeps_records_that_its_successor_has():
    """It does not know that m2 is committed, and has one record more than its successor. That is removed, m2 stays."""
    replicas = Replicas(3, isr=(1, 2))
    replicas[1].append("m1")
    replicas.catch_up(2)
    replicas[1].append("m2")
    replicas.fetch(2)
    replicas[1].append("only here")
    replicas.elect(2, isr=(2,))
    assert (replicas[2].high_watermark, replicas[1].high_watermark) == (2, 1)
    assert replicas.fetch(1)
    assert replicas[1].values() == ["m1", "m2"]


def test_kip_101_diverged_log_of_the_same_length_is_truncated():
    """Both lose power. The replica with fewer records leads first and writes another m2 at the same offset."""
    replicas = Replicas(2)
    replicas[1].append("m1")
    replicas.catch_up(2)
    replicas[1].append("m2")
    replicas.fetch(2)
    replicas[2].restart(lost_from=1)
    replicas.elect(2, isr=(2,), tell=[2])
    replicas[2].append("m3")
    assert replicas[1].end == replicas[2].end == 2
    replicas.register(2)
    replicas.tell(1)
    replicas.catch_up(1)
    assert replicas[1].raw() == replicas[2].raw()
    assert replicas[1].values() == ["m1", "m3"]


def test_kip_279_several_elections_with_few_records_in_each_epoch():
    """The follower fetches with an epoch that its leader never had."""
    replicas = Replicas(2)
    replicas[1].append("m1")
    replicas.catch_up(2)
    replicas[1].append("only here")
    replicas.elect(2, isr=(2,), tell=[2])
    replicas[2].append("only there")
    replicas.elect(1, isr=(1,), tell=[1])
    replicas[1].append("here again")
    replicas.elect(2, isr=(2,), tell=[2])
    replicas.tell_all()
    replicas[2].append("there at last")
    replicas.catch_up(1)
    assert replicas[1].raw() == replicas[2].raw()
    assert replicas[2].values() == ["m1", "only there", "there at last"]


def test_follower_truncates_to_an_older_epoch_when_it_lacks_the_diverging_epoch():
    replicas = Replicas(2)
    follower = replicas[2]
    follower.partition.append_fetched(
        memoryview(bytes(batch("a", leader_epoch=0)) + bytes(batch("b", "c", base_offset=1, leader_epoch=4))), WALL_MS
    )
    replicas.change(leader_epoch=6)
    replicas.tell_all()
    far = FetchedPartition(0, 0, 0, 0, 0, diverging_epoch=DivergingEpoch(2, 3))
    assert take(follower.partition, position(follower.partition), far, WALL_MS) is Verdict.GO_ON
    assert (follower.end, position(follower.partition).last_epoch) == (1, 0)


def test_truncation_without_effect_is_retried_after_a_backoff():
    replicas = Replicas(2)
    replicas[1].append("a")
    replicas.catch_up(2)
    partition = replicas[2].partition
    absurd = FetchedPartition(0, 0, 0, 0, 0, diverging_epoch=DivergingEpoch(0, 5))
    assert take(partition, position(partition), absurd, WALL_MS) is Verdict.RETRY
    assert replicas[2].values() == ["a"]


def test_high_watermark_in_a_reply_with_diverging_epoch_is_ignored():
    """KAFKA-14704: it belongs to a diverged log."""
    replicas = Replicas(2)
    replicas[2].partition.append_fetched(
        memoryview(bytes(batch("a", leader_epoch=0)) + bytes(batch("b", base_offset=1, leader_epoch=0))), WALL_MS
    )
    partition = replicas[2].partition
    diverging = FetchedPartition(0, 0, 2, 2, 0, diverging_epoch=DivergingEpoch(0, 1))
    take(partition, position(partition), diverging, WALL_MS)
    assert (replicas[2].end, replicas[2].high_watermark) == (1, 0)


def test_truncation_below_the_high_watermark_is_logged_as_error(caplog):
    replicas = Replicas(2)
    replicas[1].append("a")
    replicas.catch_up(2)
    replicas[1].restart(lost_from=0)
    replicas.elect(1, isr=(1,))
    replicas[1].append("another")
    replicas.catch_up(2)
    assert replicas[2].values() == ["another"]
    assert "t-0 loses committed records: truncated to 0, the high watermark is 1" in caplog.text


def test_fetch_of_a_diverged_follower_is_no_progress():
    """KAFKA-13141."""
    replicas = Replicas(2)
    replicas[2].partition.append_fetched(memoryview(batch("x", leader_epoch=0)), WALL_MS)
    replicas.elect(1)
    replicas[1].append("a")
    answer = replicas.answer(2)
    assert answer.diverging_epoch == DivergingEpoch(0, 0)
    assert replicas[1].high_watermark == 0
    replicas.catch_up(2)
    assert replicas[2].values() == ["a"]


def test_follower_that_ends_before_the_leaders_log_start_restarts_there():
    replicas = Replicas(2, isr=(1,))
    for value in "abc":
        replicas[1].append(value)
    replicas[1].log.advance_log_start(2)
    assert replicas.fetch(2) is Verdict.GO_ON
    assert (replicas[2].log.log_start_offset, replicas[2].end) == (2, 2)
    replicas.catch_up(2)
    assert replicas[2].values() == ["c"]
    assert replicas[2].high_watermark == 3


def test_out_of_range_is_returned_before_a_diverging_epoch():
    """KAFKA-12996: an old follower whose last epoch is unknown and whose log ends before the leader's begins."""
    replicas = Replicas(2, isr=(1,))
    replicas[2].partition.append_fetched(memoryview(batch("x", leader_epoch=0)), WALL_MS)
    replicas.elect(1)
    for value in "abcd":
        replicas[1].append(value)
    replicas[1].log.advance_log_start(3)
    assert replicas.answer(2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    replicas.catch_up(2)
    assert replicas[2].values() == ["d"]


def test_out_of_range_is_returned_before_an_unknown_epoch():
    replicas = Replicas(2, isr=(1,))
    replicas[1].append("a", "b", "c")
    replicas[2].partition.append_fetched(memoryview(batch("x", leader_epoch=4)), WALL_MS)
    replicas.change(leader_epoch=2)
    replicas.tell(1)
    replicas[1].append("d", "e", "f")
    replicas.change(leader_epoch=6)
    replicas.tell_all()
    replicas[1].append("g")
    replicas[1].log.advance_log_start(4)
    assert replicas[1].log.leader_epochs.entries() == [(2, 4), (6, 6)]
    assert replicas.answer(2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


LOST = [batch(f"lost {n}", timestamp=WALL_MS, producer_id=7, producer_epoch=0, base_sequence=n) for n in range(2)]


def lost_against_deleted(length):
    """Replica 1 wrote records that the next leader 2 never got. The records that 2 wrote instead are deleted."""
    replicas = Replicas(2)
    replicas[1].append("a")
    replicas.catch_up(2)
    for sent in LOST[:length]:
        replicas[1].partition.append(memoryview(bytearray(sent)), 1, WALL_MS)
    replicas.elect(2, isr=(2,))
    replicas[2].append("b")
    replicas[2].log.advance_log_start(2)
    replicas.catch_up(1)
    return replicas


LENGTHS = pytest.mark.parametrize("length", [1, 2], ids=["as long as what was deleted", "longer"])


@LENGTHS
def test_diverged_records_do_not_reappear_when_records_were_deleted(length):
    replicas = lost_against_deleted(length)
    replicas[1].restart()
    assert (replicas[1].log.log_start_offset, replicas[1].end, replicas[1].values()) == (2, 2, [])


@LENGTHS
def test_retry_of_a_diverged_record_is_no_duplicate_when_records_were_deleted(length):
    """Its producer retries. If the retry were answered as a duplicate, an acknowledged record would be lost."""
    replicas = lost_against_deleted(length)
    replicas.elect(1, isr=(1, 2))
    assert not replicas[1].partition.append(memoryview(bytearray(LOST[0])), 1, WALL_MS).duplicate
    assert replicas[1].values() == ["lost 0"]


def test_records_fetched_in_the_current_epoch_are_kept_when_the_leader_deletes_records():
    """A restart with an empty log would also delete the producer state."""
    replicas = Replicas(2)
    replicas[1].append("a")
    replicas.fetch(2)
    replicas.answer(2)  # commits it; the reply is lost
    replicas[1].log.advance_log_start(1)
    assert (replicas[1].high_watermark, replicas[2].high_watermark) == (1, 0)
    replicas.catch_up(2)
    replicas[2].restart()
    assert replicas[2].values() == ["a"]


def test_committed_records_are_kept_when_the_leader_deletes_records():
    replicas = Replicas(2)
    replicas[1].append("a")
    replicas.catch_up(2)
    replicas.elect(1)
    replicas[1].log.advance_log_start(1)
    replicas.catch_up(2)
    replicas[2].restart()
    assert replicas[2].values() == ["a"]


def test_follower_with_records_after_the_leaders_log_start_does_not_restart_empty():
    replicas = Replicas(2)
    replicas[1].append("a")
    replicas.catch_up(2)
    partition = replicas[2].partition
    absurd = FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=0)
    assert take(partition, position(partition), absurd, WALL_MS) is Verdict.RETRY
    assert replicas[2].values() == ["a"]


def test_replica_log_can_begin_inside_a_batch():
    """KAFKA-6975: records were deleted up to the middle of a batch before the replica was created."""
    replicas = Replicas(2, isr=(1,))
    replicas[1].append("a", "b", "c")
    replicas[1].log.advance_log_start(1)
    replicas.catch_up(2)
    assert replicas[2].raw() == replicas[1].raw()
    assert (replicas[2].log.log_start_offset, replicas[2].end) == (1, 3)


def test_deleted_records_stay_deleted_when_a_log_restarts_inside_a_batch():
    """A leader that lost its log start in a crash begins before the log start of the replica."""
    replicas = Replicas(2, isr=(1,))
    replicas[1].append("a", "b", "c")
    replicas[2].partition.restart_at(1)
    replicas.catch_up(2)
    assert replicas[2].raw() == replicas[1].raw()
    assert (replicas[2].log.log_start_offset, replicas[2].end) == (1, 3)


@pytest.mark.parametrize(("room", "step"), [(MemoryDisk, "replace"), (Segment, "create"), (Segment, "write")])
def test_deleted_records_stay_deleted_when_the_disk_fails_while_a_log_restarts_inside_a_batch(monkeypatch, room, step):
    replicas = Replicas(2, isr=(1,))
    replicas[1].append("a", "b", "c")
    replicas[1].log.advance_log_start(1)
    replicas.fetch(2)
    partition, failed = replicas[2].partition, replicas[2].log

    def fails(*_):
        raise OSError(28, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(room, step, fails)
        assert replicas.fetch(2) is Verdict.GIVE_UP
    assert (failed.log_start_offset, partition.high_watermark, failed.log_end_offset) == (1, 1, 1)
    reopened = replicas[2].logs.reopen(failed, WALL_MS)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (1, 1)


def test_deleted_records_stay_deleted_after_a_power_cut_when_a_log_restarted_inside_a_batch():
    ends = set()
    for seed in range(20):
        replicas = Replicas(2, isr=(1,))
        replicas[1].append("a", "b", "c")
        replicas[1].log.advance_log_start(1)
        disk = SimDisk(Random(seed), DiskKnobs(survival=0.5))
        replicas.nodes[2] = Node(2, disk=disk.mount())
        replicas.tell(2)
        replicas.catch_up(2)
        assert (replicas[2].log.log_start_offset, replicas[2].end) == (1, 3)
        disk.power_cut()
        replicas.nodes[2] = Node(2, disk=disk.mount())
        assert replicas[2].log.log_start_offset == 1
        ends.add(replicas[2].end)
        replicas.tell(2)
        replicas.catch_up(2)
        assert replicas[2].raw() == replicas[1].raw()
    assert ends == {1, 3}  # with or without the batch


def test_a_broken_batch_around_the_log_start_changes_nothing():
    replicas = Replicas(2, isr=(1,))
    replicas[1].append("a", "b", "c")
    replicas[1].log.advance_log_start(1)
    replicas.fetch(2)
    answer = replicas.answer(2)
    damaged = bytearray(answer.records)
    damaged[-1] ^= 1
    answer.records = memoryview(damaged)
    partition, log = replicas[2].partition, replicas[2].log
    assert take(partition, position(partition), answer, WALL_MS) is Verdict.RETRY
    assert (log.log_start_offset, partition.high_watermark, log.log_end_offset) == (1, 1, 1)
    replicas.catch_up(2)
    assert replicas[2].raw() == replicas[1].raw()
    assert log.leader_epochs.entries() == [(0, 1)]


def test_empty_log_beyond_the_leaders_log_end_restarts_at_the_leaders_log_start():
    replicas = Replicas(2, isr=(1,))
    replicas[2].partition.restart_at(10)
    replicas[1].append("a")
    replicas.catch_up(2)
    assert replicas[2].values() == ["a"]


@pytest.mark.parametrize(("code", "verdict"), [
    (ErrorCode.FENCED_LEADER_EPOCH, Verdict.AWAIT_IMAGE),
    (ErrorCode.UNKNOWN_LEADER_EPOCH, Verdict.RETRY),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.RETRY),
    (ErrorCode.UNKNOWN_TOPIC_ID, Verdict.RETRY),
    (ErrorCode.KAFKA_STORAGE_ERROR, Verdict.RETRY),
    (ErrorCode.OFFSET_OUT_OF_RANGE, Verdict.RETRY),
])  # fmt: skip
def test_verdict_for_each_fetch_error(code, verdict):
    replicas = Replicas(2)
    replicas[1].append("a")
    replicas.catch_up(2)
    partition = replicas[2].partition
    assert take(partition, position(partition), FetchedPartition(0, code), WALL_MS) is verdict
    assert replicas[2].values() == ["a"]


def test_follower_stops_fetching_when_its_log_fails(monkeypatch):
    replicas = Replicas(2)
    replicas[1].append("a")
    partition = replicas[2].partition

    def fails(*_):
        raise OSError(28, "no space left")

    monkeypatch.setattr(Segment, "write", fails)
    assert replicas.fetch(2) is Verdict.GIVE_UP
    assert partition.log.offline


def test_an_old_leader_neither_commits_nor_serves_its_followers():
    """It does not know its successor yet; its followers do."""
    replicas = Replicas()
    replicas[1].append("a")
    replicas.catch_up(2, 3)
    replicas.elect(2, isr=(2, 3), tell=[2, 3])
    told = []
    replicas[1].partition.when_committed(replicas[1].append("zombie", acks=-1).last_offset, told.append)
    for follower in (2, 3):
        late = replicas[follower].ask()._replace(fetch_offset=2)
        answer = replicas.answer_of(1, late, (follower, 1))
        assert answer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (replicas[1].high_watermark, told) == (1, [])
    replicas.tell(1)
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_follower_with_flush_messages_requests_a_sync():
    replicas = Replicas(2, config=LogConfig(flush_messages=1))
    replicas[1].append("a")
    replicas.fetch(2)
    partition = replicas[2].partition
    assert (replicas[2].sync_requests, partition.is_synced(0)) == ([partition], False)


def test_sync_begun_before_a_truncation_does_not_cover_later_records():
    replicas = Replicas(2, config=LogConfig(flush_messages=1))
    replicas[1].append("a")
    replicas.fetch(2)
    partition = replicas[2].partition
    work = partition.log.syncing.begin()
    partition.truncate_to(0)
    partition.append_fetched(memoryview(batch("b", leader_epoch=0)), WALL_MS)
    work.run()
    partition.log.syncing.finish(work)
    partition.synced(work.offset, again=True)
    assert not partition.is_synced(0)


def test_wait_for_a_sync_of_truncated_records_ends_with_an_error():
    """The fetcher of one leader waits for a slow fsync. Meanwhile the fetcher of the next leader truncates the log."""
    replicas = Replicas(3, config=LogConfig(flush_messages=1))
    replicas[1].append("a")
    replicas.fetch(2)
    partition = replicas[2].partition
    work = partition.log.syncing.begin()
    told = []
    partition.when_synced(0, told.append)
    replicas.elect(3, isr=(2, 3))
    replicas.fetch(2)
    assert replicas[2].end == 0
    work.run()
    partition.log.syncing.finish(work)
    partition.synced(work.offset, again=False)
    assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_sync_on_a_follower_does_not_advance_its_high_watermark():
    replicas = Replicas(3, config=LogConfig(flush_messages=1))
    replicas[1].append("a")
    replicas.fetch(2)
    partition = replicas[2].partition
    work = partition.log.syncing.begin()
    work.run()
    partition.log.syncing.finish(work)
    partition.synced(work.offset, again=False)
    assert (partition.is_synced(0), partition.high_watermark) == (True, 0)


def test_high_watermark_is_the_log_start_when_a_restart_of_the_log_fails(monkeypatch):
    replicas = Replicas(2)
    partition = replicas[2].partition

    def fails():
        raise OSError("no room")

    monkeypatch.setattr(partition.log, "persist_checkpoints", fails)
    with pytest.raises(KafkaError):
        partition.restart_at(5)
    assert partition.log.log_start_offset <= partition.high_watermark <= partition.log.log_end_offset


def compact(node):
    """Compact as the broker's cleaner does, at once."""
    log = node.log
    log.syncing.whole()
    plan = log.compacting.plan(log.compacting.dirt(log.log_end_offset, WALL_MS), log.log_end_offset, WALL_MS, 1 << 20)
    for replacement in finished(clean(node.disk, plan)).replacements:
        log.compacting.begin_swap(plan, replacement)
        while log.compacting.step_swap():
            pass
    log.compacting.cleaned(plan, plan.segments[-1].end_offset)


def put(node, key, value):
    node.partition.append(memoryview(batch(value, key=key, timestamp=WALL_MS)), 1, WALL_MS)


def test_new_follower_of_a_compacted_log_has_the_same_records_and_log_end():
    replicas = Replicas(2, config=LogConfig(cleanup_policy=frozenset({"compact"}), delete_retention_ms=0), isr=(1,))
    leader, follower = replicas[1], replicas[2]
    for key, value in ((b"a", "1"), (b"b", "1"), (b"a", "2")):
        put(leader, key, value)
    leader.partition.append(memoryview(encode_batch([Record(key=b"b", timestamp=WALL_MS)])), 1, WALL_MS)
    leader.log.rolling.roll(WALL_MS)
    compact(leader)
    leader.log.cleaned_until = 0  # as if it were dirty again after the tombstone has expired
    compact(leader)
    assert [(header.base_offset, header.records_count) for header, _ in iter_batches(leader.raw())] == [(2, 1), (3, 0)]
    replicas.fetch(2)
    assert follower.raw() == leader.raw()
    assert follower.end == 4
    replicas.fetch(2)
    assert follower.high_watermark == 4
    follower.restart()
    replicas.tell(2)
    assert follower.end == 4
    put(leader, b"a", "3")
    replicas.fetch(2)
    assert follower.values() == ["2", "3"]


def test_follower_compacts_its_own_log_and_continues_to_fetch():
    replicas = Replicas(2, config=LogConfig(cleanup_policy=frozenset({"compact"})))
    leader, follower = replicas[1], replicas[2]
    for n in range(6):
        put(leader, b"%d" % (n % 2), str(n))
    replicas.catch_up(2)
    follower.log.rolling.roll(WALL_MS)
    compact(follower)
    assert follower.values() == ["4", "5"]
    put(leader, b"0", "6")
    replicas.catch_up(2)
    assert (follower.values(), leader.values()) == (["4", "5", "6"], ["0", "1", "2", "3", "4", "5", "6"])
