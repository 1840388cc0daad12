"""JoinGroup: which members are accepted, under which id, and whether the group must rebalance."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.effects import Effects, Now
from odradek.coordinator.group.changes import stored_group
from odradek.coordinator.group.classic_group import ClassicGroup, Member, SupportedProtocol
from odradek.coordinator.group.membership import drop_member
from odradek.coordinator.group.rebalance import complete_if_all_joined, joined, prepare, rebalance_or_go_on
from odradek.coordinator.group.states import GroupState
from odradek.coordinator.group.turn import Turn, session_timer
from odradek.protocol.messages.p11_join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.p14_sync_group import SyncGroupResponse

# How long a JoinGroup of a new member may stay parked: its client may be gone without our seeing it.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A JoinGroup request with what the protocol needs to know about its sender."""

    request: JoinGroupRequest
    client_id: str
    client_host: str
    # The id to give if the member has none yet; the shell makes it at random.
    new_member_id: str
    # KIP-394: from version 4 on a new dynamic member must rejoin with the id it is given.
    must_know_its_id: bool
    # KIP-814: from version 9 on a static leader that rejoins can be asked to keep the assignment.
    can_skip_assignment: bool
    to: object

    @property
    def protocols(self) -> tuple[SupportedProtocol, ...]:
        return tuple(SupportedProtocol(protocol.name, protocol.metadata) for protocol in self.request.protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        # Version 0 has one timeout for both.
        given = self.request.rebalance_timeout_ms
        return self.request.session_timeout_ms if given < 0 else given

    @property
    def why(self) -> str:
        return f"; client reason: {(self.request.reason or 'not provided')[: limits.member_reason_chars_max]}"


def join(turn: Turn, group: ClassicGroup, joining: Joining) -> None:
    request = joining.request
    if not _has_room_for(turn, group, request.member_id):
        if request.member_id in group.members:
            drop_member(turn, group, request.member_id)
        return _refuse(turn, joining, ErrorCode.GROUP_MAX_SIZE_REACHED, member_id="")
    if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
        return _refuse(turn, joining, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if sum(len(p.name) + len(p.metadata) for p in request.protocols) > limits.member_metadata_bytes_max:
        return _refuse(turn, joining, ErrorCode.MESSAGE_TOO_LARGE)
    if request.member_id:
        return _join_known(turn, group, joining)
    if request.group_instance_id is None:
        return _join_new_dynamic(turn, group, joining)
    if request.group_instance_id in group.static_members:
        return _replace_static(turn, group, joining, request.group_instance_id)
    return _add(turn, group, joining, joining.new_member_id)


def _has_room_for(turn: Turn, group: ClassicGroup, member_id: str) -> bool:
    if not member_id and len(group.pending_joins) >= limits.pending_members_per_group_max:
        return False
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            # Count only rejoined members: after group.max.size was lowered, the last ones to rejoin are refused.
            return member_id in group.joining or len(group.joining) < turn.config.max_size
        case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
            return member_id in group.members or len(group.members) < turn.config.max_size
        case _:
            return True


def _join_new_dynamic(turn: Turn, group: ClassicGroup, joining: Joining) -> None:
    member_id = joining.new_member_id
    if not joining.must_know_its_id:
        return _add(turn, group, joining, member_id)
    group.pending_joins[member_id] = None
    turn.set_timer(session_timer(group, member_id), joining.request.session_timeout_ms)
    return _refuse(turn, joining, ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)


def _join_known(turn: Turn, group: ClassicGroup, joining: Joining) -> None:
    request = joining.request
    member_id = request.member_id
    if member_id in group.pending_joins:
        if request.group_instance_id is not None:
            return _refuse(turn, joining, ErrorCode.UNKNOWN_MEMBER_ID)
        return _add(turn, group, joining, member_id)
    try:
        group.validate_member(member_id, request.group_instance_id)
    except KafkaError as refusal:
        return _refuse(turn, joining, refusal.code)
    member = group.members[member_id]
    changed = member.protocols != joining.protocols
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            return _rejoin(turn, group, member, joining, f"{member_id} rejoins")
        case GroupState.COMPLETING_REBALANCE if changed:
            return _rejoin(turn, group, member, joining, f"{member_id} changed its metadata")
        case GroupState.STABLE if group.leader == member_id:
            # The leader may know of changes that no metadata shows, such as new partitions.
            return _rejoin(turn, group, member, joining, f"leader {member_id} rejoins")
        case GroupState.STABLE if changed:
            return _rejoin(turn, group, member, joining, f"{member_id} changed its metadata")
        case _:
            # It may have missed the answer to an earlier JoinGroup: no rebalance.
            turn.reply(joining.to, joined(group, member_id))
            return None


def _rejoin(turn: Turn, group: ClassicGroup, member: Member, joining: Joining, reason: str) -> None:
    group.update(member, joining.protocols, joining.request.session_timeout_ms, joining.rebalance_timeout_ms)
    _park(turn, group, member.member_id, joining)
    rebalance_or_go_on(turn, group, reason + joining.why)


def _add(turn: Turn, group: ClassicGroup, joining: Joining, member_id: str) -> None:
    request = joining.request
    member = Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=joining.protocols,
        is_new=True,
    )
    if group.initial_wait is not None:
        group.initial_wait.member_came = True
    group.add(member, request.protocol_type)
    _park(turn, group, member_id, joining)
    turn.set_timer(session_timer(group, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance_or_go_on(turn, group, f"{member_id} joins{joining.why}")


def _replace_static(turn: Turn, group: ClassicGroup, joining: Joining, instance_id: str) -> None:
    """A static member that joins without its id has restarted. It takes its old place; the old id is fenced."""
    old_member_id = group.static_members[instance_id]
    old_leader = group.leader or ""
    generation = group.generation
    _fence(turn, group, old_member_id)
    member = group.rename(instance_id, joining.new_member_id)
    before = (member.client_id, member.client_host)
    before_update = (member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms)
    member.client_id, member.client_host = joining.client_id, joining.client_host
    group.update(member, joining.protocols, joining.request.session_timeout_ms, joining.rebalance_timeout_ms)
    turn.cancel_timer(session_timer(group, old_member_id))
    turn.expect_heartbeat(group, member)
    if group.state is not GroupState.STABLE:
        _park(turn, group, member.member_id, joining)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be computing an assignment for the old id.
            return prepare(turn, group, f"static member {instance_id} is {member.member_id} now{joining.why}")
        return complete_if_all_joined(turn, group)
    if group.select_protocol() != group.protocol_name:
        _park(turn, group, member.member_id, joining)
        return prepare(turn, group, f"static member {instance_id} changed the group's protocol{joining.why}")

    def stored(error: ErrorCode, now: Now) -> Effects:
        after = Turn(now, turn.config)
        if group.static_members.get(instance_id) != joining.new_member_id:
            # It left or was replaced again while this was being stored.
            _refuse(after, joining, error or ErrorCode.UNKNOWN_MEMBER_ID)
        elif error:
            # Undo only if no rebalance has begun: that counts on the protocols of the new member.
            if group.state is GroupState.STABLE and group.generation == generation:
                group.rename(instance_id, old_member_id)
                member.client_id, member.client_host = before
                group.update(member, *before_update)
                after.cancel_timer(session_timer(group, joining.new_member_id))
                after.expect_heartbeat(group, member)
            _refuse(after, joining, error, member_id="")
        else:
            after.reply(joining.to, _kept_place(group, joining, old_leader))
        return after

    assignments = {known.member_id: known.assignment for known in group.members.values()}
    return turn.store(stored_group(group, assignments), stored)


def _kept_place(group: ClassicGroup, joining: Joining, old_leader: str) -> JoinGroupResponse:
    response = joined(group, joining.new_member_id)
    if joining.can_skip_assignment:
        response.skip_assignment = group.leader == joining.new_member_id
    else:
        # An older client that sees itself as leader would assign again. With the old id as leader it does not.
        response.leader = old_leader
        response.members = []
    return response


def _fence(turn: Turn, group: ClassicGroup, member_id: str) -> None:
    parked_join = group.joining.pop(member_id, None)
    if parked_join is not None:
        turn.reply(parked_join, JoinGroupResponse(member_id=member_id, error_code=ErrorCode.FENCED_INSTANCE_ID))
    parked_sync = group.syncing.pop(member_id, None)
    if parked_sync is not None:
        turn.reply(parked_sync, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))


def _park(turn: Turn, group: ClassicGroup, member_id: str, joining: Joining) -> None:
    earlier = group.joining.get(member_id)
    if earlier is not None:
        turn.reply(earlier, JoinGroupResponse(member_id=member_id, error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    group.joining[member_id] = joining.to


def _refuse(turn: Turn, joining: Joining, error: ErrorCode, member_id: str | None = None) -> None:
    given = joining.request.member_id if member_id is None else member_id
    turn.reply(joining.to, JoinGroupResponse(member_id=given, error_code=error))
