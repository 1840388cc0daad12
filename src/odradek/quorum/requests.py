"""The answers of this member to requests of its peers."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.base.ids import LeaderEpoch
from odradek.quorum.effects import Reply
from odradek.quorum.election import ElectionState
from odradek.quorum.follower import Follower
from odradek.quorum.leader import Leader
from odradek.quorum.log_facts import EpochEnd, SnapshotId, parting
from odradek.quorum.messages import (
    AddVoter,
    Answer,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchAnswer,
    ReadSnapshot,
    RemoveVoter,
    Request,
    UpdateVoter,
    Vote,
    VoteAnswer,
)
from odradek.quorum.nominee import Prospective
from odradek.quorum.replica import Replica
from odradek.quorum.unattached import Unattached


def handle(replica: Replica, token: object, request: Request) -> None:
    if request.cluster_id not in (None, replica.cluster_id):
        refused = _answer(replica, ErrorCode.INCONSISTENT_CLUSTER_ID)
        replica.effects.append(Reply(token, refused))
        return
    match request:
        case AddVoter() | RemoveVoter() | UpdateVoter():
            _change_voters(replica, token, request)
            return
        case Vote():
            answer = _vote(replica, request)
        case BeginEpoch():
            answer = _begin_epoch(replica, request)
        case EndEpoch():
            answer = _end_epoch(replica, request)
        case Fetch():
            answer = _fetch(replica, request)
        case ReadSnapshot():
            answer = _read_snapshot(replica, request)
    # Last: the effects before it make the state durable.
    replica.effects.append(Reply(token, answer))


def fetch_answer(replica: Replica, fetch: Fetch) -> Answer:
    """Changes nothing."""
    error = _is_senseless(replica, fetch) or _leader_only(replica, fetch.leader_epoch)
    if error is not None:
        return _answer(replica, error)
    parts_at = parting(replica.log, fetch.fetch_offset, fetch.last_fetched_epoch)
    return FetchAnswer(
        leader_id=replica.leader_id,
        leader_epoch=replica.leader_epoch,
        high_watermark=replica.high_watermark,
        diverging=parts_at if isinstance(parts_at, EpochEnd) else None,
        snapshot=parts_at if isinstance(parts_at, SnapshotId) else None,
    )


def _vote(replica: Replica, vote: Vote) -> Answer:
    # A candidate has started this epoch itself, so there are no records in it yet.
    newest_possible = vote.leader_epoch if vote.pre_vote else vote.leader_epoch - 1
    if vote.candidate.voter_id < 0 or vote.log_end_offset < 0 or not 0 <= vote.last_epoch <= newest_possible:
        return _answer(replica, ErrorCode.INVALID_REQUEST)
    if vote.leader_epoch < replica.leader_epoch:
        return _answer(replica, ErrorCode.FENCED_LEADER_EPOCH)
    if vote.leader_epoch > replica.leader_epoch:
        replica.become_unattached(vote.leader_epoch)
    if not replica.is_addressed(vote.voter):
        return _answer(replica, ErrorCode.INVALID_VOTER_KEY)
    granted = replica.is_up_to_date(vote) and _may_grant(replica, vote)
    if granted and not vote.pre_vote:
        replica.elect(ElectionState(leader_epoch=replica.leader_epoch, voted=vote.candidate))
        if isinstance(replica.state, Unattached | Prospective):
            replica.state.wait_anew()
    return VoteAnswer(leader_id=replica.leader_id, leader_epoch=replica.leader_epoch, granted=granted)


def _may_grant(replica: Replica, vote: Vote) -> bool:
    if vote.pre_vote:
        return replica.state.would_vote()
    return replica.state.may_vote and replica.has_vote_for(vote.candidate)


def _begin_epoch(replica: Replica, begin: BeginEpoch) -> Answer:
    if begin.leader_epoch < replica.leader_epoch:
        return _answer(replica, ErrorCode.FENCED_LEADER_EPOCH)
    replica.learn(begin.leader_id, begin.leader_epoch)
    if not replica.is_addressed(begin.voter):
        return _answer(replica, ErrorCode.INVALID_VOTER_KEY)
    return _answer(replica)


def _end_epoch(replica: Replica, end: EndEpoch) -> Answer:
    if end.leader_epoch < replica.leader_epoch:
        return _answer(replica, ErrorCode.FENCED_LEADER_EPOCH)
    replica.learn(end.leader_id, end.leader_epoch)
    if isinstance(replica.state, Follower) and replica.leader_id == end.leader_id:
        replica.state.leader_resigned(end.successors)
    return _answer(replica)


def _fetch(replica: Replica, fetch: Fetch) -> Answer:
    answer = fetch_answer(replica, fetch)
    if not isinstance(replica.state, Leader) or not isinstance(answer, FetchAnswer):
        return answer
    if answer.diverging or answer.snapshot or fetch.replica.voter_id < 0:
        # The replica does not have our records below that offset, so this is no progress.
        return answer
    replica.state.fetched(fetch)
    return fetch_answer(replica, fetch)


def _read_snapshot(replica: Replica, read: ReadSnapshot) -> Answer:
    error = _leader_only(replica, read.leader_epoch)
    if error is None and isinstance(replica.state, Leader):
        replica.state.heard(read.replica)
    return _answer(replica, error or ErrorCode.NONE)


def _change_voters(replica: Replica, token: object, request: AddVoter | RemoveVoter | UpdateVoter) -> None:
    epoch = request.leader_epoch if isinstance(request, UpdateVoter) else replica.leader_epoch
    error = _leader_only(replica, epoch)
    if error is not None:
        reason = "Only the leader of the metadata log can change the voters."
        replica.effects.append(Reply(token, _answer(replica, error, reason)))
    elif isinstance(replica.state, Leader):
        replica.state.changes.request(replica, replica.state, token, request)


def _is_senseless(replica: Replica, fetch: Fetch) -> ErrorCode | None:
    ours = fetch.replica.voter_id == replica.id
    if ours or fetch.fetch_offset < 0 or not 0 <= fetch.last_fetched_epoch <= fetch.leader_epoch:
        return ErrorCode.INVALID_REQUEST
    return None


def _leader_only(replica: Replica, leader_epoch: LeaderEpoch) -> ErrorCode | None:
    if leader_epoch < replica.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_epoch > replica.leader_epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(replica.state, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return None


def _answer(replica: Replica, error: ErrorCode = ErrorCode.NONE, reason: str = "") -> Answer:
    return Answer(error=error, leader_id=replica.leader_id, leader_epoch=replica.leader_epoch, reason=reason)
