"""Known bugs of Kafka, reproduced with our replicas. docs/internals/bugs-of-others.md lists them all."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.replication.following import Verdict, position, take
from odradek.replication.isolation import FetchIsolation
from support.data_broker import batch
from support.replicas import EVERYTHING, LAG_MS_MAX, WALL_MS, Replicas


def test_kafka_7164_follower_paused_during_two_elections_still_truncates_by_epoch():
    """1 led, 2 led and wrote, 1 leads again: for the paused follower only the epoch has changed."""
    replicas = Replicas(3)
    replicas[1].append("m1")
    replicas.catch_up(2, 3)
    replicas[1].append("only 1 and 3 have it")
    replicas.fetch(3)
    replicas.elect(2, isr=(2,), tell=[2, 1])
    replicas[2].append("m2")
    replicas.catch_up(1)
    replicas.elect(1, isr=(1, 2))
    replicas[1].append("m3")
    replicas.catch_up(2, 3)
    assert replicas[3].values() == ["m1", "m2", "m3"]
    assert replicas[1].raw() == replicas[2].raw() == replicas[3].raw()


def test_kafka_10706_truncation_removes_an_epoch_without_records():
    """The old leader began an epoch at its log end and wrote nothing: no record is truncated, only the epoch."""
    replicas = Replicas(2)
    replicas[1].append("m1")
    replicas.catch_up(2)
    replicas.elect(1, isr=(1,), tell=[1])
    assert replicas[1].log.leader_epochs.latest == 1
    replicas.elect(2, isr=(2,), tell=[2])
    replicas[2].append("m2")
    replicas.tell_all()
    replicas.catch_up(1)
    assert replicas[1].log.leader_epochs.entries() == replicas[2].log.leader_epochs.entries() == [(0, 0), (2, 1)]


def test_kafka_9491_follower_that_restarts_empty_resets_its_high_watermark():
    """Otherwise it would lead with a high watermark above its log end, and serve offsets that do not exist."""
    replicas = Replicas(2, isr=(1, 2))
    for value in "abc":
        replicas[1].append(value)
    replicas.catch_up(2)
    assert replicas[2].high_watermark == 3
    replicas[2].partition.restart_at(1)
    assert (replicas[2].log.log_start_offset, replicas[2].end, replicas[2].high_watermark) == (1, 1, 1)
    replicas.catch_up(2)
    assert replicas[2].values() == ["b", "c"]


def test_kafka_13207_reply_for_a_partition_that_is_no_longer_followed_is_ignored():
    """The reply with a diverging epoch reaches a follower that has become leader: it must not truncate its log."""
    replicas = Replicas(2)
    replicas[1].append("m1")
    replicas.catch_up(2)
    replicas[2].partition.append_fetched(memoryview(batch("m2", base_offset=1, leader_epoch=0)), WALL_MS)
    asked = position(replicas[2].partition)
    replicas.elect(1)
    replicas[1].append("m3")
    late = replicas.answer(2)
    assert late.diverging_epoch is not None
    replicas.elect(2, isr=(2,))
    assert take(replicas[2].partition, asked, late, WALL_MS) is Verdict.GO_ON
    assert replicas[2].values() == ["m1", "m2"]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, ErrorCode.NONE),
    ],
)
def test_kip_320_consumer_with_an_old_leader_epoch_gets_an_error(epoch, code):
    """Its leader epoch is outdated: it could read records of a diverged log."""
    replicas = Replicas(2)
    replicas[1].append("m1")
    replicas.catch_up(2)
    replicas.elect(2, isr=(1, 2))
    replicas.catch_up(1)
    read = replicas[2].partition.read(0, EVERYTHING, epoch, FetchIsolation.HIGH_WATERMARK, whole_first_batch=True)
    assert read.error_code == code


def test_kip_320_zombie_leader_commits_nothing_with_followers_of_a_newer_epoch():
    """Its followers fetch in the new epoch. Such a fetch acknowledges nothing in the old epoch."""
    replicas = Replicas(3)
    replicas[1].append("m1")
    replicas.catch_up(2, 3)
    replicas.elect(2, isr=(2, 3), tell=[2, 3])
    told: list[ErrorCode] = []
    replicas[1].partition.when_committed(replicas[1].append("m2", acks=-1).last_offset, told.append)
    replicas[2].append("another m2")
    replicas.fetch(3)
    fetch = replicas[3].ask()
    assert replicas.answer_of(1, fetch, (3, 1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (told, replicas[1].high_watermark) == ([], 1)


def test_kafka_14139_restarted_replica_does_not_join_the_isr_for_fetches_before_the_restart():
    """KIP-903. 2 was in sync, died, and restarted empty before the proposal to add it reached the controller."""
    replicas = Replicas(2, isr=(1,))
    replicas[1].append("m1")
    replicas.fetch(2)
    replicas.fetch(2)
    assert replicas[1].proposals, "it has everything and is proposed"
    replicas[2].restart(lost_from=0)
    replicas.register(2)
    assert replicas.decide(1) is ErrorCode.INELIGIBLE_REPLICA
    assert replicas.image.isr == (1,)
    assert replicas[1].partition.isr == (1,)


def test_kafka_14144_isr_proposal_with_a_lost_reply_is_retried():
    """It was committed, but the leader got no reply and retries with the old partition epoch. The image decides."""
    replicas = Replicas(2, isr=(1,))
    replicas[1].append("m1")
    replicas.fetch(2)
    replicas.fetch(2)
    leader = replicas[1].partition
    (proposal,) = replicas[1].proposals
    assert replicas.decide(1, answer=False) is ErrorCode.NONE
    assert leader.isr_refused(proposal, ErrorCode.REQUEST_TIMED_OUT, replicas.now_ms), "it is to be asked again"
    replicas[1].proposals.append(proposal)
    assert replicas.decide(1) is ErrorCode.INVALID_UPDATE_VERSION
    assert leader.leading.proposal is proposal, "neither added nor given up before the image says which"
    replicas.tell(1)
    assert (leader.isr, leader.leading.proposal) == ((1, 2), None)
    replicas.catch_up(2)
    assert replicas[1].high_watermark == 1


def test_kafka_13091_isr_shrink_alone_completes_a_waiting_produce_request():
    """Two replicas, min.insync.replicas=1: the ISR shrink alone commits everything, without another write."""
    replicas = Replicas(2, min_isr=1)
    told: list[ErrorCode] = []
    replicas[1].partition.when_committed(replicas[1].append("m1", acks=-1).last_offset, told.append)
    replicas.now_ms += LAG_MS_MAX + 1
    replicas[1].partition.tick(replicas.now_ms)
    assert told == []
    assert replicas.decide(1) is ErrorCode.NONE
    assert told == [ErrorCode.NONE]
