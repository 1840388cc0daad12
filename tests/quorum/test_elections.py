"""Elections, step by step: who stands when, who votes for whom, and what is durable before it is sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.base.invariants import InvariantBroken
from odradek.quorum.effects import AppendEpochStart, LeaderChanged, PersistElection, Reply
from odradek.quorum.election import ElectionState
from odradek.quorum.events import Answered, Requested, RequestFailed, Resign, ShuttingDown, Tick
from odradek.quorum.messages import BeginEpoch, EndEpoch, Fetch, Vote
from odradek.quorum.roles import Role
from odradek.quorum.voters import VoterKey
from support.quorum_log import FakeLog
from support.quorum_member import CLUSTER, K1, K2, K3, TIMING, Member, kinds, persisted, sends
from support.quorum_node import key_of

ONE_TIMEOUT_MS = TIMING.election_timeout_ms * 3 // 2  # with a random value of 0.5


def begin(epoch, leader=2, voter=K1) -> BeginEpoch:
    return BeginEpoch(leader_id=leader, leader_epoch=epoch, voter=voter, cluster_id=CLUSTER)


def end(epoch, *successors, leader=2) -> EndEpoch:
    return EndEpoch(leader_id=leader, leader_epoch=epoch, cluster_id=CLUSTER, successors=successors)


# --- standing


def test_voter_without_a_leader_first_asks_for_pre_votes():
    member = Member(epoch=4)
    assert not sends(member.wait(ONE_TIMEOUT_MS - 1), Vote)
    votes = sends(member.wait(1), Vote)
    assert [(send.peer, send.request.pre_vote, send.request.leader_epoch) for send in votes] == [
        (2, True, 4),
        (3, True, 4),
    ]
    assert (member.role, member.quorum.leader_epoch) == (Role.PROSPECTIVE, 4)


def test_voter_with_a_pre_vote_majority_votes_for_itself_durably_and_asks_for_votes():
    member = Member(epoch=4)
    votes = sends(member.wait(ONE_TIMEOUT_MS), Vote)
    effects = member.answer(votes[1], member.granted())
    assert effects[0] == PersistElection(ElectionState(leader_epoch=5, voted=K1))
    assert [send.request.pre_vote for send in sends(effects, Vote)] == [False, False]
    assert member.role is Role.CANDIDATE


def test_elected_leader_persists_its_election_before_it_writes():
    effects = Member(epoch=4).elected().effects
    assert kinds(effects)[:3] == [PersistElection, LeaderChanged, AppendEpochStart]
    assert persisted(effects) == [ElectionState(leader_epoch=5, leader_id=1)]
    leader_change = effects[2].records[0]
    assert [voter.voter_id for voter in leader_change.granting_voters] == [1, 2]
    assert sorted(send.peer for send in sends(effects, BeginEpoch)) == [2, 3]


def test_votes_of_another_election_do_not_count():
    member = Member(epoch=4)
    pre_votes = sends(member.wait(ONE_TIMEOUT_MS), Vote)
    member.answer(pre_votes[0], member.granted())
    member.answer(pre_votes[1], member.granted(epoch=5))
    assert member.role is Role.CANDIDATE


def test_pre_vote_does_not_count_as_vote():
    member = Member(epoch=4)
    votes = sends(member.wait(ONE_TIMEOUT_MS), Vote)
    votes = sends(member.answer(votes[0], member.granted()), Vote)
    member.tell(Answered(2, replace(votes[0].request, pre_vote=True), member.granted()))
    assert member.role is Role.CANDIDATE


def test_two_answers_of_one_voter_count_once():
    member = Member(epoch=4, voters=(K1, K2, K3, key_of(4), key_of(5)))
    votes = sends(member.wait(ONE_TIMEOUT_MS), Vote)
    for _ in range(3):
        member.answer(votes[0], member.granted())
    assert member.role is Role.PROSPECTIVE


def test_candidate_that_lost_waits_for_the_election_timeout():
    """KAFKA-18345: a candidate that stood again at once would lose again."""
    member = Member(epoch=4)
    votes = sends(member.wait(ONE_TIMEOUT_MS), Vote)
    votes = sends(member.answer(votes[0], member.granted()), Vote)
    for send in votes:
        member.answer(send, member.granted(False))
    assert not sends(member.wait(ONE_TIMEOUT_MS - 1), Vote)
    assert sends(member.wait(1), Vote)[0].request.pre_vote


def test_failed_vote_request_is_retried():
    member = Member(epoch=4)
    votes = sends(member.wait(ONE_TIMEOUT_MS), Vote)
    member.tell(RequestFailed(2, votes[0].request))
    assert [send.peer for send in sends(member.wait(TIMING.retry_backoff_ms), Vote)] == [2]


def test_election_timeout_is_random():
    early, late = Member(), Member()
    early.chance, late.chance = 0.0, 0.99
    for member in (early, late):
        member.ask(member.vote(epoch=2))
        member.wait(TIMING.election_timeout_ms)
    assert (early.role, late.role) == (Role.PROSPECTIVE, Role.UNATTACHED)


def test_follower_stands_for_election_after_the_fetch_timeout():
    member = Member(epoch=4, leader=2)
    member.wait(TIMING.fetch_timeout_ms - 1)
    assert member.role is Role.FOLLOWER
    member.wait(1)
    assert member.role is Role.PROSPECTIVE


def test_voter_that_loses_the_pre_vote_follows_its_leader_again():
    member = Member(epoch=4, leader=2)
    votes = sends(member.wait(TIMING.fetch_timeout_ms), Vote)
    for send in votes:
        member.answer(send, member.granted(False, leader=2))
    assert (member.role, member.quorum.leader_id, member.quorum.leader_epoch) == (Role.FOLLOWER, 2, 4)


def test_observer_never_stands_for_election():
    member = Member(voters=(K2, K3), leader=2)
    assert not sends(member.wait(60_000), Vote)


def test_a_node_that_lost_its_disk_is_an_observer():
    member = Member(key=key_of(1, 9), leader=2)
    assert not member.quorum.is_voter
    assert not sends(member.wait(60_000), Vote)


# --- voting


def test_vote_is_durable_before_it_is_sent():
    member = Member(epoch=4)
    effects = member.tell(Requested("token", member.vote(K2, epoch=5)))
    assert persisted(effects)[-1] == ElectionState(leader_epoch=5, voted=K2)
    assert isinstance(effects[-1], Reply)
    assert effects[-1].answer.granted


def test_one_vote_per_epoch():
    member = Member(epoch=4)
    assert member.ask(member.vote(K2, epoch=5)).granted
    assert not member.ask(member.vote(K3, epoch=5)).granted
    assert member.ask(member.vote(K2, epoch=5)).granted
    assert member.ask(member.vote(K3, epoch=6)).granted


def test_vote_survives_a_restart():
    member = Member(epoch=5, voted=K2)
    assert not member.ask(member.vote(K3, epoch=5)).granted
    assert member.ask(member.vote(K2, epoch=5)).granted


def test_same_node_id_with_another_directory_is_another_candidate():
    member = Member(epoch=5, voted=K2)
    assert not member.ask(member.vote(key_of(2, 9), epoch=5)).granted


@pytest.mark.parametrize(
    ("last", "granted"), [((3, 2), False), ((2, 9), False), ((3, 3), True), ((3, 4), True), ((4, 1), True)]
)
def test_candidate_with_an_older_log_gets_no_vote(last, granted):
    member = Member(log=FakeLog.of(1, 2, 3), epoch=4)
    assert member.ask(member.vote(epoch=5, last=last)).granted is granted
    assert member.ask(member.vote(epoch=5, last=last, pre_vote=True)).granted is granted


def test_candidate_and_leader_grant_no_votes_to_others():
    member = Member(epoch=4)
    votes = sends(member.wait(ONE_TIMEOUT_MS), Vote)
    votes = sends(member.answer(votes[0], member.granted()), Vote)
    other = member.vote(K3, epoch=5, last=(4, 99))
    assert not member.ask(other).granted
    member.answer(votes[0], member.granted())
    assert member.role is Role.LEADER
    assert not member.ask(other).granted
    assert not member.ask(member.vote(K3, epoch=5, last=(5, 99), pre_vote=True)).granted


def test_no_vote_in_an_epoch_that_has_a_leader():
    member = Member(epoch=4, leader=2)
    assert not member.ask(member.vote(K3, epoch=4)).granted


def test_prospective_grants_no_vote_in_an_epoch_that_had_a_leader():
    member = Member(epoch=4, leader=2)
    member.wait(TIMING.fetch_timeout_ms)
    assert member.role is Role.PROSPECTIVE
    assert not member.ask(member.vote(K3, epoch=4)).granted


def test_follower_with_a_live_leader_grants_no_pre_vote():
    member = Member(epoch=4, leader=2)
    ask = member.vote(K3, epoch=4, pre_vote=True, last=(4, 99))
    assert member.ask(ask).granted
    (fetch,) = sends(member.effects, Fetch)
    member.answer(fetch, member.records())
    assert not member.ask(ask).granted


def test_granted_pre_vote_does_not_change_the_election_state():
    member = Member(epoch=4)
    member.wait(10)
    assert member.ask(member.vote(K2, epoch=4, pre_vote=True)).granted
    assert member.ask(member.vote(K3, epoch=4, pre_vote=True)).granted
    assert member.quorum.election == ElectionState(leader_epoch=4)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"epoch": 3}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 5, "cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"epoch": 5, "voter": key_of(1, 9)}, ErrorCode.INVALID_VOTER_KEY),
        ({"epoch": 5, "voter": K2}, ErrorCode.INVALID_VOTER_KEY),
        ({"epoch": 5, "last": (5, 9)}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 5, "last": (-1, 9)}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 5, "last": (4, -1)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_vote_requests_are_refused(changes, error):
    member = Member(epoch=4)
    assert member.ask(member.vote(**changes)).error is error
    assert member.quorum.election.voted is None


# --- learning of leaders


def test_leader_stops_at_once_when_it_learns_of_a_newer_epoch():
    """It must write nothing while the new epoch is in memory but not yet on disk."""
    member = Member().elected()
    effects = member.tell(Requested("token", member.vote(K3, epoch=9, last=(2, 99))))
    assert kinds(effects)[:2] == [LeaderChanged, PersistElection]
    assert effects[0] == LeaderChanged(-1, 2)
    assert member.quorum.leader_epoch == 9


def test_new_leader_from_a_request_is_persisted_and_followed():
    member = Member(epoch=4)
    effects = member.tell(Requested("token", begin(5, leader=3)))
    assert persisted(effects) == [ElectionState(leader_epoch=5, leader_id=3)]
    assert LeaderChanged(3, 5) in effects
    (fetch,) = sends(effects, Fetch)
    assert (fetch.peer, fetch.request.leader_epoch) == (3, 5)


def test_request_of_an_old_leader_gets_fenced_leader_epoch():
    member = Member(epoch=4)
    assert member.ask(begin(3)).error is ErrorCode.FENCED_LEADER_EPOCH
    assert member.ask(end(3)).error is ErrorCode.FENCED_LEADER_EPOCH


def test_begin_epoch_for_another_directory_is_refused_but_its_leader_is_learned():
    member = Member(epoch=4)
    assert member.ask(begin(5, voter=key_of(1, 9))).error is ErrorCode.INVALID_VOTER_KEY
    assert member.quorum.leader_id == 2


def test_request_without_a_directory_id_is_for_the_node_with_that_id_only():
    """Voters of a cluster that was formatted without directory ids are known by their node ids."""
    assert Member(epoch=4).ask(begin(5, voter=VoterKey(1, ZERO_UUID))).error is ErrorCode.NONE
    assert Member(epoch=4).ask(begin(5, voter=VoterKey(2, ZERO_UUID))).error is ErrorCode.INVALID_VOTER_KEY


def test_two_leaders_in_one_epoch_stop_the_node():
    member = Member(epoch=4, leader=2)
    with pytest.raises(InvariantBroken, match="two leaders"):
        member.tell(Requested("token", begin(4, leader=3)))


def test_follower_asks_another_voter_when_the_leader_does_not_answer():
    member = Member(epoch=4, leader=2)
    (fetch,) = sends(member.effects, Fetch)
    member.tell(RequestFailed(2, fetch.request))
    (other,) = sends(member.wait(TIMING.retry_backoff_ms), Fetch)
    assert other.peer == 3
    member.answer(other, member.refusal(ErrorCode.FENCED_LEADER_EPOCH, leader=3, epoch=6))
    assert (member.quorum.leader_id, member.quorum.leader_epoch) == (3, 6)


# --- handing over


def test_first_successor_stands_without_waiting():
    member = Member(epoch=4, leader=2)
    member.ask(end(4, K1, K3))
    member.tell(Tick())
    assert member.role is Role.PROSPECTIVE


def test_second_successor_waits_before_it_stands():
    member = Member(epoch=4, leader=2)
    member.ask(end(4, K3, K1))
    member.wait(TIMING.election_backoff_max_ms // 2 - 1)
    assert member.role is Role.FOLLOWER
    member.wait(1)
    assert member.role is Role.PROSPECTIVE


def test_resigning_leader_names_the_most_caught_up_voter_first():
    member = Member().elected()
    member.sync()
    member.ask(member.fetch(K2, offset=1, last_epoch=1))
    member.ask(member.fetch(K3, offset=2, last_epoch=2))
    ends = sends(member.tell(ShuttingDown()), EndEpoch)
    assert [send.request.successors for send in ends] == [(K3, K2)] * 2
    assert not member.quorum.handed_over
    for send in ends:
        member.answer(send, member.refusal(ErrorCode.NONE))
    assert member.quorum.handed_over
    assert member.wait(60_000) == []


def test_resigned_leader_does_not_lead_the_same_epoch_again():
    member = Member().elected()
    epoch = member.quorum.leader_epoch
    member.tell(Resign())
    assert (member.role, member.quorum.leader_id) == (Role.RESIGNED, -1)
    assert not member.ask(member.vote(K3, epoch=epoch, last=(epoch - 1, 99))).granted
    member.wait(ONE_TIMEOUT_MS)
    assert member.quorum.leader_epoch == epoch + 1


def test_a_restarted_leader_does_not_lead_its_epoch_again():
    """KAFKA-10527: lost records and new ones could have the same offset and epoch."""
    member = Member(epoch=4, leader=1)
    assert member.role is Role.RESIGNED
    assert len(sends(member.effects, EndEpoch)) == 2
    assert not member.ask(member.vote(K2, epoch=4, last=(3, 9))).granted


def test_restarted_candidate_starts_a_new_election():
    """Its log may have lost the records it was voted for."""
    member = Member(epoch=4, voted=K1)
    assert member.role is Role.UNATTACHED
    votes = sends(member.wait(ONE_TIMEOUT_MS), Vote)
    assert votes[0].request.pre_vote


def test_follower_stands_early_when_the_leader_process_ended():
    member = Member(epoch=4, leader=2)
    (fetch,) = sends(member.effects, Fetch)
    (fetch,) = sends(member.answer(fetch, member.records()), Fetch)
    member.tell(RequestFailed(2, fetch.request, peer_gone=True))
    member.wait(TIMING.election_backoff_max_ms // 2)
    assert member.role is Role.PROSPECTIVE


def test_candidate_that_shuts_down_stops_its_candidacy():
    member = Member(epoch=4)
    votes = sends(member.wait(ONE_TIMEOUT_MS), Vote)
    member.tell(ShuttingDown())
    member.answer(votes[0], member.granted())
    assert (member.role, member.quorum.leader_epoch) == (Role.UNATTACHED, 4)


def test_voter_that_shuts_down_does_not_stand_for_election():
    member = Member()
    member.tell(ShuttingDown())
    assert not sends(member.wait(60_000), Vote)
    assert member.quorum.handed_over


def test_observer_without_known_peers_has_no_deadline():
    """An observer that knows no voter and no bootstrap server: it has no deadline."""
    member = Member(voters=())
    assert member.role is Role.UNATTACHED
    assert member.quorum.deadline_ms is None
