"""Fetches, step by step: what a fetch acknowledges, what is committed, and how diverged logs are repaired."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.invariants import InvariantBroken
from odradek.quorum.effects import AppendFetched, FetchSnapshot, HighWatermarkAdvanced, Reply, TruncateTo
from odradek.quorum.events import Requested, SnapshotFailed, SnapshotLoaded, SnapshotProgress
from odradek.quorum.leader import Leader
from odradek.quorum.log_facts import EpochEnd, SnapshotId
from odradek.quorum.messages import BeginEpoch, Fetch, FetchAnswer, ReadSnapshot
from odradek.quorum.roles import Role
from support.quorum_log import Entry, FakeLog
from support.quorum_member import CLUSTER, K1, K2, K3, TIMING, Member, kinds, sends
from support.quorum_node import key_of


def diverging(member, epoch, end_offset) -> FetchAnswer:
    return FetchAnswer(
        leader_id=member.quorum.leader_id,
        leader_epoch=member.quorum.leader_epoch,
        high_watermark=-1,
        diverging=EpochEnd(epoch, end_offset),
    )


def needs_snapshot(member, snapshot) -> FetchAnswer:
    return FetchAnswer(
        leader_id=member.quorum.leader_id, leader_epoch=member.quorum.leader_epoch, high_watermark=-1, snapshot=snapshot
    )


def heard(member) -> list[object]:
    return [replica.key for replica in member.quorum.progress() if replica.end_offset >= 0]


def first_fetch(member) -> object:
    (fetch,) = sends(member.effects, Fetch)
    return fetch


# --- leading


def test_record_is_committed_when_a_majority_has_it_durably():
    member = Member(log=FakeLog.of(1)).elected()
    end = member.log.log_end_offset
    member.ask(member.fetch(K2, offset=end, last_epoch=2))
    assert member.quorum.high_watermark == -1
    assert member.sync() == [HighWatermarkAdvanced(end)]


def test_leader_and_one_of_two_followers_are_a_majority():
    member = Member(log=FakeLog.of(1)).elected()
    end = member.log.log_end_offset
    member.sync()
    assert member.quorum.high_watermark == -1
    effects = member.tell(Requested("token", member.fetch(K3, offset=end, last_epoch=2)))
    assert kinds(effects) == [HighWatermarkAdvanced, Reply]
    assert effects[1].answer.high_watermark == end


def figure_8() -> Member:
    """A record of epoch 2 is on a majority. Its writer leads epoch 4, which has no replicated record yet."""
    member = Member(log=FakeLog.of(1, 2), epoch=3).elected()
    member.sync()
    member.ask(member.fetch(K2, offset=2, last_epoch=2))
    return member


def test_record_of_an_older_epoch_on_a_majority_is_not_committed():
    """KAFKA-12619, Raft's figure 8: a voter with a record of epoch 3 could lead next and truncate it."""
    member = figure_8()
    assert member.quorum.high_watermark == -1
    member.ask(member.fetch(K2, offset=3, last_epoch=4))
    assert member.quorum.high_watermark == 3


def test_disabled_rule_for_records_of_older_epochs_is_detected(monkeypatch):
    monkeypatch.setattr(Leader, "may_commit", lambda self, offset: True)
    assert figure_8().quorum.high_watermark == 2


def test_fetches_of_observers_and_voters_with_another_directory_commit_nothing():
    member = Member().elected()
    member.sync()
    for key in (key_of(4), key_of(2, 9)):
        answer = member.ask(member.fetch(key, offset=member.log.log_end_offset, last_epoch=2))
        assert answer.error is ErrorCode.NONE
    assert member.quorum.high_watermark == -1
    assert heard(member) == [K1, key_of(4), key_of(2, 9)]


def test_fetch_of_a_diverged_voter_acknowledges_nothing():
    """KAFKA-13141."""
    member = Member(log=FakeLog.of(1, 1, 1), epoch=2).elected()
    member.sync()
    answer = member.ask(member.fetch(K2, offset=4, last_epoch=2))
    assert answer.diverging == EpochEnd(1, 3)
    assert heard(member) == [K1]


def test_longer_log_of_the_same_epoch_diverges():
    member = Member(log=FakeLog.of(1, 1, 1), epoch=2).elected()
    assert member.ask(member.fetch(offset=5, last_epoch=1)).diverging == EpochEnd(1, 3)
    assert member.ask(member.fetch(offset=3, last_epoch=1)).diverging is None


def test_fetch_below_the_log_start_gets_a_snapshot():
    member = Member(log=FakeLog.of(1, 1, 2, 2), epoch=2).elected()
    member.log.take_snapshot(3)
    snapshot = SnapshotId(3, 2)
    for offset, epoch in ((0, 0), (2, 1), (3, 1), (3, 3), (4, 1)):
        answer = member.ask(member.fetch(offset=offset, last_epoch=epoch))
        assert (answer.snapshot, answer.diverging) == (snapshot, None)
    assert member.ask(member.fetch(offset=3, last_epoch=2)).snapshot is None


@pytest.mark.parametrize(
    ("epoch", "error"), [(1, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.UNKNOWN_LEADER_EPOCH), (2, ErrorCode.NONE)]
)
def test_fetch_with_another_epoch_gets_an_error(epoch, error):
    member = Member().elected()
    answer = member.ask(member.fetch(offset=1, last_epoch=1, epoch=epoch))
    assert (answer.error, answer.leader_id, answer.leader_epoch) == (error, 1, 2)
    read = ReadSnapshot(replica=K2, cluster_id=CLUSTER, leader_epoch=epoch)
    assert member.ask(read).error is error


def test_fetch_from_a_node_that_is_not_leader_is_refused():
    member = Member(epoch=4, leader=3)
    answer = member.ask(member.fetch(offset=1, last_epoch=1))
    assert (answer.error, answer.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 3)


@pytest.mark.parametrize("fetch", [{"offset": -1, "last_epoch": 1}, {"offset": 1, "last_epoch": 3}])
def test_invalid_fetches_are_refused(fetch):
    member = Member().elected()
    assert member.ask(member.fetch(**fetch)).error is ErrorCode.INVALID_REQUEST


def test_delayed_fetch_is_answered_with_the_current_state():
    member = Member().elected()
    held = member.fetch(offset=1, last_epoch=1)
    member.ask(held)
    member.ask(member.vote(K3, epoch=9, last=(2, 99)))
    assert member.quorum.fetch_answer(held).error is ErrorCode.FENCED_LEADER_EPOCH


def test_a_leader_without_a_majority_resigns():
    member = Member().elected()
    member.wait(TIMING.check_quorum_ms - 1)
    assert member.role is Role.LEADER
    member.ask(member.fetch(offset=1, last_epoch=1))
    member.wait(TIMING.check_quorum_ms - 1)
    assert member.role is Role.LEADER
    member.wait(1)
    assert member.role is Role.RESIGNED


def test_fetches_of_observers_do_not_count_for_the_majority():
    member = Member().elected()
    for _ in range(10):
        member.ask(member.fetch(key_of(4), offset=1, last_epoch=1))
        member.wait(TIMING.check_quorum_ms // 10)
    assert member.role is Role.RESIGNED


def test_voter_that_reads_a_snapshot_counts_as_alive():
    member = Member().elected()
    for _ in range(10):
        member.ask(ReadSnapshot(replica=K3, cluster_id=CLUSTER, leader_epoch=2))
        member.wait(TIMING.check_quorum_ms // 2)
    assert member.role is Role.LEADER


def test_leader_sends_begin_epoch_to_voters_that_do_not_fetch():
    member = Member().elected()
    member.wait(TIMING.begin_epoch_ms - 1)
    member.ask(member.fetch(K2, offset=1, last_epoch=1))
    assert [send.peer for send in sends(member.wait(1), BeginEpoch)] == [3]


# --- following


def test_follower_fetches_only_after_its_log_is_durable():
    """KAFKA-10533: a fetch from an offset acknowledges everything below it."""
    member = Member(log=FakeLog.of(1, 1), leader=2, synced=False)
    assert not sends(member.effects, Fetch)
    assert not sends(member.sync(1), Fetch)
    (fetch,) = sends(member.sync(2), Fetch)
    assert (fetch.request.fetch_offset, fetch.request.last_fetched_epoch) == (2, 1)


def test_fetched_records_are_appended_synced_and_then_acknowledged():
    member = Member(leader=2)
    effects = member.answer(first_fetch(member), member.records((1, "a"), (1, "b"), high_watermark=2))
    assert kinds(effects) == [AppendFetched]
    effects = member.sync()
    assert effects[0] == HighWatermarkAdvanced(2)
    assert sends(effects, Fetch)[0].request.fetch_offset == 3


def test_a_followers_high_watermark_is_not_above_its_log():
    member = Member(leader=2)
    member.answer(first_fetch(member), member.records((1, "a"), high_watermark=99))
    member.sync()
    assert member.quorum.high_watermark == 2


def test_repeated_fetch_reply_is_ignored():
    member = Member(leader=2)
    fetch = first_fetch(member)
    member.answer(fetch, member.records((1, "a")))
    assert member.answer(fetch, member.records((1, "a"))) == []


def test_fetch_reply_of_another_epoch_is_not_appended():
    member = Member(leader=2)
    fetch, answer = first_fetch(member), member.records((1, "a"))
    member.ask(BeginEpoch(leader_id=3, leader_epoch=5, voter=K1, cluster_id=CLUSTER))
    assert AppendFetched not in kinds(member.answer(fetch, answer))


@pytest.mark.parametrize(
    ("epochs", "leader_says", "kept"),
    [
        ((1, 1, 2, 2), (1, 9), 2),
        ((1, 1, 2, 2), (1, 1), 1),
        ((1, 1, 3, 3), (2, 4), 2),
        ((1, 1, 2, 2), (2, 3), 3),
    ],
)
def test_diverged_log_is_truncated_to_where_it_may_agree(epochs, leader_says, kept):
    """KIP-101, KIP-279: if the epoch is unknown here, the follower truncates to the end of its next older epoch."""
    member = Member(log=FakeLog.of(*epochs), epoch=4, leader=2)
    assert member.answer(first_fetch(member), diverging(member, *leader_says)) == [TruncateTo(kept)]
    (fetch,) = sends(member.wait(0), Fetch)
    assert (fetch.request.fetch_offset, fetch.request.last_fetched_epoch) == (kept, epochs[kept - 1])


def test_committed_records_are_never_truncated():
    """KAFKA-12460: a leader that requests this was not elected correctly."""
    member = Member(log=FakeLog.of(1, 1, 1), leader=2)
    (fetch,) = sends(member.answer(first_fetch(member), member.records(high_watermark=3)), Fetch)
    with pytest.raises(InvariantBroken, match="lacks committed records from 2 on"):
        member.answer(fetch, diverging(member, 1, 2))


def test_sync_of_truncated_records_does_not_cover_new_ones():
    member = Member(log=FakeLog.of(1, 2, 2), epoch=3, leader=2)
    member.answer(first_fetch(member), diverging(member, 1, 1))
    (fetch,) = sends(member.wait(0), Fetch)
    member.answer(fetch, member.records((3, "x"), (3, "y")))
    assert not sends(member.wait(0), Fetch)
    assert sends(member.sync(), Fetch)[0].request.fetch_offset == 3


def test_loaded_snapshot_replaces_the_log():
    """KAFKA-14618: it ends before the offset in its name. The follower continues from that offset."""
    member = Member(log=FakeLog.of(1, 1, 1, 1), epoch=5, leader=2)
    snapshot = SnapshotId(3, 4)
    effects = member.answer(first_fetch(member), needs_snapshot(member, snapshot))
    assert effects == [FetchSnapshot(2, 5, snapshot)]
    assert member.quorum.is_loading(snapshot)
    member.wait(TIMING.fetch_timeout_ms - 1)
    member.tell(SnapshotProgress(snapshot))
    member.wait(TIMING.fetch_timeout_ms - 1)
    assert member.role is Role.FOLLOWER
    member.log.load_snapshot(snapshot, [Entry(4, offset) for offset in range(3)])
    assert member.tell(SnapshotLoaded(snapshot)) == [HighWatermarkAdvanced(3)]
    (fetch,) = sends(member.wait(0), Fetch)
    assert (fetch.request.fetch_offset, fetch.request.last_fetched_epoch) == (3, 4)
    # The synced offset of the old log does not apply to the new one.
    member.answer(fetch, member.records((5, "x")))
    assert not sends(member.wait(0), Fetch)


def test_snapshot_is_not_loaded_after_the_follower_started_an_election():
    """The follower has started an election meanwhile and no longer loads it."""
    member = Member(epoch=5, leader=2)
    snapshot = SnapshotId(3, 4)
    member.answer(first_fetch(member), needs_snapshot(member, snapshot))
    member.wait(TIMING.fetch_timeout_ms)
    assert not member.quorum.is_loading(snapshot)
    with pytest.raises(InvariantBroken, match="was not requested"):
        member.tell(SnapshotLoaded(snapshot))


def test_failed_snapshot_fetch_is_retried():
    member = Member(epoch=5, leader=2)
    member.answer(first_fetch(member), needs_snapshot(member, SnapshotId(3, 4)))
    member.tell(SnapshotFailed(SnapshotId(3, 4)))
    assert not sends(member.wait(TIMING.retry_backoff_ms - 1), Fetch)
    assert sends(member.wait(1), Fetch)


def test_observer_learns_the_leader_from_any_peer():
    member = Member(log=FakeLog(), voters=(K2, K3), epoch=0)
    (fetch,) = sends(member.effects, Fetch)
    member.answer(fetch, member.refusal(ErrorCode.FENCED_LEADER_EPOCH, leader=2, epoch=7))
    assert (member.role, member.quorum.leader_id) == (Role.FOLLOWER, 2)
