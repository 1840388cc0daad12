"""Voter changes, step by step (KIP-853)."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID
from odradek.quorum.effects import AppendVoters, HighWatermarkAdvanced, LeaderChanged, Reply
from odradek.quorum.events import Requested, ShuttingDown, VotersChanged
from odradek.quorum.messages import AddVoter, EndEpoch, Fetch, RemoveVoter, UpdateVoter, Vote
from odradek.quorum.roles import Role
from odradek.quorum.voters import Endpoint, Voter, VoterKey, VoterSet, voters_from_record
from support.quorum_member import CLUSTER, K1, K2, K3, TIMING, Member, kinds, sends, voter_set
from support.quorum_node import key_of

K4 = key_of(4)
MOVED = Endpoint("CONTROLLER", "elsewhere", 9093)


def add(key=K4, **more) -> AddVoter:
    return AddVoter(voter=Voter(key=key), cluster_id=CLUSTER, **more)


def remove(key) -> RemoveVoter:
    return RemoveVoter(voter=key, cluster_id=CLUSTER)


def follow(member, *keys):
    """These replicas have everything, durably."""
    effects = []
    for key in keys:
        fetch = member.fetch(key, offset=member.log.log_end_offset, last_epoch=member.log.last_epoch)
        effects += member.tell(Requested("fetch", fetch))
    return effects


def leader(*keys) -> Member:
    """A leader that has committed the first record of its epoch."""
    member = Member(voters=keys or (K1, K2, K3)).elected()
    member.sync()
    follow(member, K2, K3)
    assert member.quorum.high_watermark == member.log.log_end_offset
    return member


def ask(member, request):
    return member.tell(Requested("change", request))


def answer(effects):
    return next(e.answer for e in effects if isinstance(e, Reply) and e.token == "change")


def test_new_voter_counts_as_soon_as_its_record_is_appended():
    member = leader()
    follow(member, K4)
    effects = ask(member, add())
    assert kinds(effects) == [AppendVoters]
    assert voters_from_record(effects[0].record) == voter_set(K1, K2, K3, K4)
    member.sync()
    assert HighWatermarkAdvanced not in kinds(follow(member, K2)), "two of four voters are no majority"
    effects = follow(member, K4)
    assert kinds(effects)[:2] == [HighWatermarkAdvanced, Reply]
    assert answer(effects).error is ErrorCode.NONE


def test_add_voter_can_be_acknowledged_when_its_record_is_appended():
    member = leader()
    follow(member, K4)
    assert answer(ask(member, add(ack_when_committed=False))).error is ErrorCode.NONE


def test_add_voter_is_refused_before_the_node_has_caught_up():
    member = leader()
    assert answer(ask(member, add())).error is ErrorCode.REQUEST_TIMED_OUT
    follow(member, K4)
    follow(member, K2)
    member.now_ms += TIMING.fetch_timeout_ms + 1
    assert answer(ask(member, add())).error is ErrorCode.REQUEST_TIMED_OUT


def test_add_voter_with_an_existing_node_id_is_refused():
    assert answer(ask(leader(), add(key_of(2, 9)))).error is ErrorCode.DUPLICATE_VOTER


def test_add_voter_without_directory_id_or_endpoint_is_refused():
    member = Member(endpoints=(MOVED,)).elected()
    member.sync()
    follow(member, K2, K3, K4)
    for key, endpoints in (
        (K4, ()),
        (K4, (Endpoint("ANOTHER", "elsewhere", 9093),)),
        (VoterKey(K4.voter_id, ZERO_UUID), (MOVED,)),
        (VoterKey(-1, K4.directory_id), (MOVED,)),
    ):
        request = AddVoter(voter=Voter(key=key, endpoints=endpoints), cluster_id=CLUSTER)
        assert answer(ask(member, request)).error is ErrorCode.INVALID_REQUEST
    good = AddVoter(voter=Voter(key=K4, endpoints=(MOVED,)), cluster_id=CLUSTER)
    assert AppendVoters in kinds(ask(member, good))


def test_voter_change_is_refused_while_another_is_uncommitted():
    member = leader()
    follow(member, K4)
    ask(member, add())
    assert answer(member.tell(Requested("change", remove(K3)))).error is ErrorCode.REQUEST_TIMED_OUT
    member.sync()
    follow(member, K2, K3)
    assert AppendVoters in kinds(ask(member, remove(K3)))


def test_voter_change_is_refused_before_the_epoch_has_committed_a_record():
    """Also if it knows the high watermark of the previous leader, which may have changed the voters since."""
    member = Member(leader=2)
    (fetch,) = sends(member.effects, Fetch)
    member.answer(fetch, member.records(high_watermark=1))
    assert member.quorum.high_watermark == 1
    member.elected()
    assert answer(ask(member, remove(K3))).error is ErrorCode.REQUEST_TIMED_OUT


def test_removed_voter_no_longer_counts_for_the_majority():
    member = leader()
    ask(member, remove(K3))
    member.sync()
    assert HighWatermarkAdvanced not in kinds(follow(member, K3))
    assert answer(follow(member, K2)).error is ErrorCode.NONE


def test_remove_voter_with_another_directory_id_is_refused():
    assert answer(ask(leader(), remove(key_of(3, 9)))).error is ErrorCode.VOTER_NOT_FOUND


def test_remove_voter_is_refused_when_the_remaining_voters_could_not_commit_it():
    """The new set is used from its record on. With too few reachable voters it could never commit."""
    member = leader()
    member.now_ms += TIMING.fetch_timeout_ms + 1
    follow(member, K2)
    refused = answer(ask(member, remove(K2)))
    assert refused.error is ErrorCode.REQUEST_TIMED_OUT
    assert "1 of the 2 other voters follow" in refused.reason
    assert answer(ask(member, remove(K1))).error is ErrorCode.REQUEST_TIMED_OUT
    assert AppendVoters in kinds(ask(member, remove(K3))), "a silent voter may be removed"


def test_last_voter_cannot_be_removed():
    member = Member(voters=(K1,))
    member.sync()
    assert answer(ask(member, remove(K1))).error is ErrorCode.INVALID_REQUEST


def test_removed_leader_leads_until_its_removal_is_committed():
    """KAFKA-16530: its own log does not count for that commit."""
    member = leader()
    ask(member, remove(K1))
    member.sync()
    assert HighWatermarkAdvanced not in kinds(follow(member, K2)), (
        "one of two voters is no majority, and the removed leader does not count"
    )
    assert member.role is Role.LEADER
    effects = follow(member, K3)
    assert answer(effects).error is ErrorCode.NONE
    assert member.role is Role.RESIGNED
    assert len(sends(effects, EndEpoch)) == 2
    epoch = member.quorum.leader_epoch
    assert not sends(member.wait(60_000), Vote)
    assert member.quorum.leader_epoch == epoch, "an observer does not open a new epoch"


def test_removed_leader_looks_for_the_next_leader_after_the_others_answered():
    """Without waiting for an election timeout: the node may be a broker that has no controller until then."""
    member = leader()
    ask(member, remove(K1))
    member.sync()
    follow(member, K2)
    ends = sends(follow(member, K3), EndEpoch)
    effects = [effect for end in ends for effect in member.answer(end, member.refusal(ErrorCode.NONE))]
    assert member.role is Role.UNATTACHED
    assert sends(effects, Fetch)


def test_pending_voter_change_gets_an_error_when_the_leader_changes():
    member = leader()
    ask(member, remove(K3))
    effects = member.tell(ShuttingDown())
    assert kinds(effects)[:2] == [LeaderChanged, Reply]
    assert answer(effects).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("request_", [add(), remove(K2)])
def test_voter_change_is_refused_by_a_node_that_is_not_leader(request_):
    member = Member(leader=2)
    assert answer(ask(member, request_)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_voter_with_new_endpoints_sends_update_voter():
    member = Member(leader=2, epoch=5)
    described = Voter(key=K1, endpoints=(MOVED,))
    member.wait(10)
    member.tell(VotersChanged(VoterSet((described, Voter(key=K2), Voter(key=K3))), 0))
    (update,) = sends(member.wait(TIMING.fetch_timeout_ms), UpdateVoter)
    assert (update.peer, update.request.voter, update.request.leader_epoch) == (2, Voter(key=K1), 5)


def test_update_voter_writes_a_new_voters_record():
    member = leader()
    moved = Voter(key=K3, endpoints=(MOVED,))
    request = UpdateVoter(voter=moved, cluster_id=CLUSTER, leader_epoch=2)
    effects = ask(member, request)
    assert voters_from_record(effects[0].record).voters == (Voter(key=K1), Voter(key=K2), moved)
    member.sync()
    follow(member, K2)
    assert answer(ask(member, request)).error is ErrorCode.NONE
    stranger = UpdateVoter(voter=Voter(key=key_of(3, 9)), cluster_id=CLUSTER, leader_epoch=2)
    assert answer(ask(member, stranger)).error is ErrorCode.VOTER_NOT_FOUND


def test_observer_is_a_voter_only_while_the_voters_record_is_in_its_log():
    member = Member(voters=(K2, K3), leader=2)
    member.tell(VotersChanged(voter_set(K1, K2, K3), 5))
    assert member.quorum.is_voter
    assert sends(member.wait(TIMING.fetch_timeout_ms), Vote)
    member.tell(VotersChanged(voter_set(K2, K3), 0))
    assert not member.quorum.is_voter
    assert not sends(member.wait(60_000), Vote)


def test_observer_with_auto_join_sends_add_voter():
    member = Member(voters=(K2, K3), leader=2, joins=True)
    (asked, *_) = sends(member.wait(TIMING.fetch_timeout_ms), AddVoter)
    assert (asked.peer, asked.request.voter.key, asked.request.ack_when_committed) == (2, K1, False)
    member.tell(VotersChanged(voter_set(K1, K2, K3), 5))
    assert not sends(member.wait(TIMING.fetch_timeout_ms - 1), AddVoter)


def test_node_with_a_new_directory_first_removes_its_old_voter():
    old = key_of(1, 9)
    member = Member(voters=(old, K2, K3), leader=2, joins=True)
    (asked, *_) = sends(member.wait(TIMING.fetch_timeout_ms), RemoveVoter)
    assert (asked.peer, asked.request.voter) == (2, old)


@pytest.mark.parametrize("member", [{"joins": False}, {"joins": True, "stops": True}])
def test_observer_without_auto_join_or_in_shutdown_does_not_join(member):
    stops = member.pop("stops", False)
    observer = Member(voters=(K2, K3), leader=2, **member)
    if stops:
        observer.tell(ShuttingDown())
    assert not sends(observer.wait(10 * TIMING.fetch_timeout_ms), AddVoter)


def test_progress_includes_voters_that_never_fetched():
    member = Member().elected()
    follow(member, K3)
    assert [(each.key, each.end_offset) for each in member.quorum.progress()] == [
        (K1, member.log.synced),
        (K2, -1),
        (K3, member.log.log_end_offset),
    ]


def test_voter_without_directory_id_matches_by_node_id():
    voters = voter_set(VoterKey(K1.voter_id, ZERO_UUID), K2)
    assert voters.seat_of(K1) == (1, ZERO_UUID)
    assert voters.seat_of(key_of(2, 9)) is None
    assert voters.with_voter(Voter(key=K1)) == voter_set(K1, K2)
