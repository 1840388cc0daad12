"""The phases of a rebalance: prepare (members rejoin), complete (the leader assigns), stable.

Every function takes the turn it runs in and the group it changes.
"""

from __future__ import annotations

import logging

from odradek.base.errors import ErrorCode
from odradek.base.invariants import invariant
from odradek.coordinator.effects import Effects, Now
from odradek.coordinator.group.changes import stored_group
from odradek.coordinator.group.classic_group import ClassicGroup, InitialWait
from odradek.coordinator.group.states import GroupState, Happening
from odradek.coordinator.group.turn import Turn, join_timer, session_timer, sync_timer
from odradek.protocol.messages.p11_join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.messages.p14_sync_group import SyncGroupResponse

log = logging.getLogger(__name__)


def rebalance_or_go_on(turn: Turn, group: ClassicGroup, reason: str) -> None:
    if group.can_rebalance:
        prepare(turn, group, reason)
    else:
        complete_if_all_joined(turn, group)


def prepare(turn: Turn, group: ClassicGroup, reason: str) -> None:
    if group.state is GroupState.COMPLETING_REBALANCE:
        drop_assignments(turn, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs.clear()
    turn.cancel_timer(sync_timer(group))
    was_empty = group.state is GroupState.EMPTY
    log.info("group %s rebalances from generation %d: %s", group.group_id, group.generation, reason)
    group.move(Happening.REBALANCE, turn.now.wall_ms)
    if was_empty:
        delay_ms = turn.config.initial_rebalance_delay_ms
        group.initial_wait = InitialWait(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        turn.set_timer(join_timer(group), delay_ms)
    elif group.all_joined:
        complete_join(turn, group)
    else:
        turn.set_timer(join_timer(group), group.rebalance_timeout_ms)


def join_timer_fired(turn: Turn, group: ClassicGroup) -> None:
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    wait = group.initial_wait
    if wait is None or not wait.member_came or wait.remaining_ms == 0:
        complete_join(turn, group)
        return
    delay_ms = min(turn.config.initial_rebalance_delay_ms, wait.remaining_ms)
    group.initial_wait = InitialWait(delay_ms, max(wait.remaining_ms - wait.delay_ms, 0))
    turn.set_timer(join_timer(group), delay_ms)


def complete_if_all_joined(turn: Turn, group: ClassicGroup) -> None:
    rejoining = group.state is GroupState.PREPARING_REBALANCE and group.previous_state is not GroupState.EMPTY
    if rejoining and group.all_joined:
        complete_join(turn, group)


def complete_join(turn: Turn, group: ClassicGroup) -> None:
    """Ends the join phase. Removes dynamic members that did not rejoin; static ones stay until their session ends."""
    group.initial_wait = None
    turn.cancel_timer(join_timer(group))
    absent = [
        member.member_id
        for member in group.members.values()
        if member.instance_id is None and member.member_id not in group.joining
    ]
    for member_id in absent:
        log.info("group %s goes on without %s, which did not rejoin in time", group.group_id, member_id)
        group.remove(member_id)
        turn.cancel_timer(session_timer(group, member_id))
    if group.members and not group.elect_among_joined():
        # Only static members are left and none has rejoined: wait for them, or until their sessions end.
        turn.set_timer(join_timer(group), group.rebalance_timeout_ms)
        return
    group.next_generation(turn.now.wall_ms)
    if group.state is GroupState.EMPTY:
        _store_empty(turn, group)
    else:
        _announce_generation(turn, group)


def _store_empty(turn: Turn, group: ClassicGroup) -> None:
    log.info("group %s is empty, generation %d", group.group_id, group.generation)

    def stored(error: ErrorCode, now: Now) -> Effects:
        if error:
            # Harmless: after a restart before the next rebalance, the old members are in the group until they time out.
            log.warning("group %s could not be stored as empty: %s", group.group_id, error.name)
        return Effects(now)

    turn.store(stored_group(group), stored)


def _announce_generation(turn: Turn, group: ClassicGroup) -> None:
    log.info(
        "group %s generation %d has %d members, %s by %s",
        group.group_id, group.generation, len(group.members), group.protocol_name, group.leader,
    )  # fmt: skip
    for member in group.members.values():
        to = group.joining.pop(member.member_id, None)
        if to is not None:
            turn.reply(to, joined(group, member.member_id))
        turn.expect_heartbeat(group, member)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    turn.set_timer(sync_timer(group), group.rebalance_timeout_ms)


def joined(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """The JoinGroup response for this member: the leader gets the metadata of all members."""
    everybody = (
        [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in group.members.values()
        ]
        if group.leader == member_id
        else []
    )
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id=member_id,
        members=everybody,
    )


def sync_timer_fired(turn: Turn, group: ClassicGroup) -> None:
    """Removes members that got the new generation but sent no SyncGroup in time, and rebalances without them."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_syncs:
        return
    late = list(group.pending_syncs)
    for member_id in late:
        group.remove(member_id)
        turn.cancel_timer(session_timer(group, member_id))
    prepare(turn, group, f"no SyncGroup came from {', '.join(late)}")


def store_assignments(turn: Turn, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    """Stores the leader's assignments, then sends them. A member that the leader left out gets empty bytes."""
    generation = group.generation
    complete = {member_id: assignments.get(member_id, b"") for member_id in group.members}

    def stored(error: ErrorCode, now: Now) -> Effects:
        after = Turn(now, turn.config)
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            return after
        if error:
            drop_assignments(after, group, error)
            prepare(after, group, f"the assignment could not be stored: {error.name}")
            return after
        for member_id, assignment in complete.items():
            group.members[member_id].assignment = assignment
        group.move(Happening.ASSIGNED, now.wall_ms)
        _answer_syncs(after, group, ErrorCode.NONE)
        return after

    turn.store(stored_group(group, complete), stored)


def drop_assignments(turn: Turn, group: ClassicGroup, error: ErrorCode) -> None:
    invariant(group.state is GroupState.COMPLETING_REBALANCE, f"{group.group_id} is in {group.state.value}")
    for member in group.members.values():
        member.assignment = b""
    _answer_syncs(turn, group, error)


def _answer_syncs(turn: Turn, group: ClassicGroup, error: ErrorCode) -> None:
    parked, group.syncing = group.syncing, {}
    for member_id, to in parked.items():
        member = group.members[member_id]
        turn.reply(to, SyncGroupResponse(error_code=error) if error else assignment_of(group, member_id))
        # Sessions were suspended while the request was parked.
        turn.expect_heartbeat(group, member)


def assignment_of(group: ClassicGroup, member_id: str) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=group.members[member_id].assignment,
    )
