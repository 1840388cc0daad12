"""Changing who votes, one voter at a time (KIP-853).

If two voter sets differ in one voter, any majorities of the two have a common member. So the new set is used as soon
as its record is in the log. The next change waits until that record is committed. The first change of an epoch waits
until the epoch has committed a record, because another log could still have an older change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.base.ids import ZERO_UUID, Offset, uuid_text
from odradek.quorum.effects import AppendVoters, Reply
from odradek.quorum.messages import AddVoter, Answer, RemoveVoter, UpdateVoter
from odradek.quorum.voters import Voter, VoterKey, VoterSet

if TYPE_CHECKING:
    from odradek.quorum.leader import Leader
    from odradek.quorum.replica import Replica

ChangeRequest = AddVoter | RemoveVoter | UpdateVoter


class _Pending(NamedTuple):
    token: object
    offset: Offset


class VoterChanges:
    """The voter changes of one leader."""

    def __init__(self) -> None:
        self._pending: _Pending | None = None

    def request(self, replica: Replica, leader: Leader, token: object, request: ChangeRequest) -> None:
        refusal = self._busy(replica, leader) or _refusal(replica, leader, request)
        if refusal is not None:
            replica.effects.append(Reply(token, _answer(replica, *refusal)))
            return
        voters = _changed(replica.voters, request)
        if voters == replica.voters:
            replica.effects.append(Reply(token, _answer(replica)))
            return
        offset = Offset(replica.log.log_end_offset)
        replica.effects.append(AppendVoters(replica.leader_epoch, voters.to_record()))
        self._pending = _Pending(token, offset)
        if isinstance(request, AddVoter) and not request.ack_when_committed:
            replica.effects.append(Reply(token, _answer(replica)))

    def committed(self, replica: Replica) -> None:
        if self._pending is not None and replica.high_watermark > self._pending.offset:
            self._end(replica, _answer(replica))

    def abandon(self, replica: Replica) -> None:
        """The next leader may or may not commit the pending change."""
        if self._pending is not None:
            self._end(replica, _answer(replica, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _end(self, replica: Replica, answer: Answer) -> None:
        if self._pending is not None:
            replica.effects.append(Reply(self._pending.token, answer))
        self._pending = None

    def _busy(self, replica: Replica, leader: Leader) -> tuple[ErrorCode, str] | None:
        if replica.high_watermark <= leader.epoch_start_offset:
            return ErrorCode.REQUEST_TIMED_OUT, "The leader has not committed a record in this epoch yet."
        if self._pending is not None or replica.voters_offset >= replica.high_watermark:
            return ErrorCode.REQUEST_TIMED_OUT, "The previous voter change is not committed yet."
        return None


def _refusal(replica: Replica, leader: Leader, request: ChangeRequest) -> tuple[ErrorCode, str] | None:
    match request:
        case AddVoter(voter=voter):
            return _not_to_be_added(replica, leader, voter)
        case RemoveVoter(voter=key):
            return _no_voter(replica, key) or _not_to_be_removed(replica, leader, key)
        case UpdateVoter(voter=voter):
            return _no_voter(replica, voter.key)


def _no_voter(replica: Replica, key: VoterKey) -> tuple[ErrorCode, str] | None:
    if replica.voters.seat_of(key) is not None:
        return None
    return ErrorCode.VOTER_NOT_FOUND, f"Node {key.voter_id} with directory {uuid_text(key.directory_id)} is no voter."


def _not_to_be_added(replica: Replica, leader: Leader, voter: Voter) -> tuple[ErrorCode, str] | None:
    node_id, listener = voter.key.voter_id, replica.listener_name
    known = [uuid_text(key.directory_id) for key in replica.voters.keys if key.voter_id == node_id]
    if known:
        return ErrorCode.DUPLICATE_VOTER, f"Node {node_id} is already a voter, with directory {known[0]}."
    if node_id < 0 or voter.key.directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "A voter needs a node id and a directory id: one of them is missing."
    if listener is not None and all(endpoint.name != listener for endpoint in voter.endpoints):
        return ErrorCode.INVALID_REQUEST, f"Node {node_id} needs an endpoint named {listener}, like all voters."
    if not leader.progress.is_caught_up(voter.key, _lately_ms(replica)):
        return ErrorCode.REQUEST_TIMED_OUT, f"Node {node_id} has not caught up with the metadata log."
    return None


def _not_to_be_removed(replica: Replica, leader: Leader, key: VoterKey) -> tuple[ErrorCode, str] | None:
    """The smaller set is used at once: with too few reachable voters it could never commit its own record."""
    left = [seat for seat in replica.other_voters if seat != replica.voters.seat_of(key)]
    there = [seat for seat in left if leader.progress.heard_ms(seat) >= _lately_ms(replica)]
    own = int(replica.voters.seat_of(replica.key) not in (None, replica.voters.seat_of(key)))
    if not left and not own:
        return ErrorCode.INVALID_REQUEST, "The last voter cannot be removed."
    present, total = len(there) + own, len(left) + own
    if present <= total // 2:
        return (
            ErrorCode.REQUEST_TIMED_OUT,
            f"Without node {key.voter_id} no majority would be left: {present} of the {total} other voters follow.",
        )
    return None


def _lately_ms(replica: Replica) -> int:
    return replica.now.ms - replica.timing.fetch_timeout_ms


def _changed(voters: VoterSet, request: ChangeRequest) -> VoterSet:
    match request:
        case AddVoter():
            return voters.including(request.voter)
        case RemoveVoter():
            return voters.without(voters.seat_of(request.voter) or request.voter)
        case UpdateVoter():
            return voters.with_voter(request.voter)


def _answer(replica: Replica, error: ErrorCode = ErrorCode.NONE, reason: str = "") -> Answer:
    return Answer(error=error, leader_id=replica.leader_id, leader_epoch=replica.leader_epoch, reason=reason)
