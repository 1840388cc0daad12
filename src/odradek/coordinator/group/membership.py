"""SyncGroup, Heartbeat, LeaveGroup and the end of a session: what a member does between two joins."""

from __future__ import annotations

import logging

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.classic_group import ClassicGroup
from odradek.coordinator.group.rebalance import (
    assignment_of,
    complete_if_all_joined,
    complete_join,
    rebalance_or_go_on,
    store_assignments,
)
from odradek.coordinator.group.states import HEARTBEAT_ANSWERS, GroupState
from odradek.coordinator.group.turn import Turn, session_timer, sync_timer
from odradek.protocol.messages.p11_join_group import JoinGroupResponse
from odradek.protocol.messages.p13_leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from odradek.protocol.messages.p14_sync_group import SyncGroupRequest, SyncGroupResponse

log = logging.getLogger(__name__)


def sync(turn: Turn, group: ClassicGroup, request: SyncGroupRequest, to: object) -> None:
    try:
        _validate_sync(group, request)
    except KafkaError as refusal:
        turn.reply(to, SyncGroupResponse(error_code=refusal.code))
        return
    member_id = request.member_id
    group.pending_syncs.pop(member_id, None)
    if not group.pending_syncs:
        turn.cancel_timer(sync_timer(group))
    if group.state is GroupState.STABLE:
        turn.reply(to, assignment_of(group, member_id))
        return
    earlier = group.syncing.get(member_id)
    if earlier is not None:
        turn.reply(earlier, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    group.syncing[member_id] = to
    if group.leader == member_id:
        store_assignments(turn, group, {given.member_id: given.assignment for given in request.assignments})


def _validate_sync(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if group.state is GroupState.EMPTY:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.validate_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    # Only versions from 5 on name the protocol that the member expects.
    if request.protocol_type not in (None, group.protocol_type) or (
        group.protocol_name is not None and request.protocol_name not in (None, group.protocol_name)
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def heartbeat(turn: Turn, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    try:
        group.validate_member(member_id, instance_id)
    except KafkaError as refusal:
        return refusal.code
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    turn.expect_heartbeat(group, group.members[member_id])
    return HEARTBEAT_ANSWERS.get(group.state, ErrorCode.NONE)


def leave(turn: Turn, group: ClassicGroup, leaving: list[MemberIdentity]) -> LeaveGroupResponse:
    answers = [
        MemberResponse(
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            error_code=_leave(turn, group, identity),
        )
        for identity in leaving
    ]
    if any(answer.error_code == ErrorCode.NONE for answer in answers):
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            rebalance_or_go_on(turn, group, f"{len(answers)} members leave")
        else:
            complete_if_all_joined(turn, group)
    return LeaveGroupResponse(members=answers)


def _leave(turn: Turn, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    member_id = identity.member_id
    if not member_id and identity.group_instance_id is not None:
        # An operator removes a static member without knowing its current id.
        member_id = group.static_members.get(identity.group_instance_id, "")
    if member_id in group.pending_joins:
        group.remove(member_id)
        turn.cancel_timer(session_timer(group, member_id))
        return ErrorCode.NONE
    try:
        group.validate_member(member_id, identity.group_instance_id)
    except KafkaError as refusal:
        return refusal.code
    reason = (identity.reason or "no reason given")[: limits.member_reason_chars_max]
    log.info("group %s: %s leaves (%s)", group.group_id, member_id, reason)
    drop_member(turn, group, member_id)
    return ErrorCode.NONE


def session_timer_fired(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    if member_id in group.pending_joins:
        group.remove(member_id)
        if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
            complete_join(turn, group)
        return
    member = group.members.get(member_id)
    # A member with a parked request counts as alive, unless it does not know its member id yet.
    if member is None or (not member.is_new and (member_id in group.joining or member_id in group.syncing)):
        return
    log.info("group %s: no heartbeat from %s in time", group.group_id, member_id)
    drop_member(turn, group, member_id)
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        rebalance_or_go_on(turn, group, f"{member_id} failed")
    elif group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
        complete_join(turn, group)


def drop_member(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    """Removes the member and answers its parked requests with UNKNOWN_MEMBER_ID: a client that is alive rejoins."""
    parked_join = group.joining.pop(member_id, None)
    if parked_join is not None:
        turn.reply(parked_join, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    parked_sync = group.syncing.pop(member_id, None)
    if parked_sync is not None:
        turn.reply(parked_sync, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member_id)
    turn.cancel_timer(session_timer(group, member_id))
