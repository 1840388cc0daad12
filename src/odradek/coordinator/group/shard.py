"""The groups of one partition of `__consumer_offsets`: every request and every timer is one turn.

A method that may have to wait takes `to` and answers through the effects it returns; one that reads answers at once.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_PRODUCER, ZERO_UUID, Offset, ProducerId
from odradek.base.invariants import InvariantBroken
from odradek.coordinator.effects import Effects, Now, Producer, TimerKey, then_nothing, then_reply
from odradek.coordinator.group import committing, joining, membership, rebalance
from odradek.coordinator.group.changes import (
    Change,
    CommittedOffset,
    GroupStored,
    OffsetStored,
    PartitionKey,
    decode,
    encode,
    restored_group,
    stored_group,
)
from odradek.coordinator.group.classic_group import ClassicGroup
from odradek.coordinator.group.config import GroupConfig
from odradek.coordinator.group.joining import Joining
from odradek.coordinator.group.offsets import OffsetStore
from odradek.coordinator.group.states import Happening
from odradek.coordinator.group.sweep import Sweep
from odradek.coordinator.group.turn import Turn
from odradek.metadata.image import ClusterImage, ImageDelta
from odradek.protocol.messages.p08_offset_commit import OffsetCommitRequest
from odradek.protocol.messages.p11_join_group import JoinGroupResponse
from odradek.protocol.messages.p12_heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.p13_leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from odradek.protocol.messages.p14_sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.txn_marker import TxnMarker

EXPIRY_TIMER: TimerKey = ("expiry", "", "")
PURGE_TIMER: TimerKey = ("purge", "", "")
# The rest follows in the next turn, so that no turn takes long.
REMOVED_PER_TURN = 500
_RETRY_MS = 1000


class GroupShard:
    __slots__ = ("_expiring", "_gone_topics", "_purging", "config", "groups", "offsets")

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetStore()
        # Names by id: several topics may have had one name.
        self._gone_topics: dict[bytes, str] = {}
        # For offsets that have expired, and for those of gone topics. None: not begun.
        self._expiring: Sweep | None = None
        self._purging: Sweep | None = None

    def __str__(self) -> str:
        return f"{len(self.groups)} groups"

    # What the engine needs: records, replay, commit.

    encode = staticmethod(encode)
    decode = staticmethod(decode)

    def replay(self, change: Change, at: Offset, producer_id: ProducerId = NO_PRODUCER) -> None:
        if isinstance(change, GroupStored):
            self._replay_group(change)
            return
        if change.committed is not None and change.group_id not in self.groups:
            # Offsets without members: a simple consumer's group.
            self.groups[change.group_id] = ClassicGroup(change.group_id)
        self.offsets.put(change, at, producer_id)

    def replay_marker(self, producer_id: ProducerId, committed: bool, at: Offset) -> None:
        self.offsets.end_transaction(producer_id, committed, at)

    def _replay_group(self, change: GroupStored) -> None:
        if change.value is None:
            self.groups.pop(change.group_id, None)
        else:
            self.groups[change.group_id] = restored_group(change.group_id, change.value)

    def commit(self, high_watermark: Offset) -> None:
        self.offsets.commit(high_watermark)

    def loaded(self, now: Now, image: ClusterImage) -> Effects:
        """The whole log has been replayed: each member gets a full session timeout to send a heartbeat."""
        turn = Turn(now, self.config)
        self._forget_topics(turn, self._topics_without(image.topics_by_id))
        turn.set_timer(EXPIRY_TIMER, self.config.offsets_retention_check_interval_ms)
        for group in self.groups.values():
            for member in group.members.values():
                turn.expect_heartbeat(group, member)
            if len(group.members) > self.config.max_size:
                rebalance.prepare(turn, group, f"{len(group.members)} members are more than {self.config.max_size}")
        return turn

    def unload(self, now: Now) -> Effects:
        turn = Turn(now, self.config)
        for group in self.groups.values():
            self._bury(turn, group, ErrorCode.NOT_COORDINATOR)
        self.groups.clear()
        return turn

    def _bury(self, turn: Turn, group: ClassicGroup, error: ErrorCode) -> None:
        for member_id, to in group.joining.items():
            turn.reply(to, JoinGroupResponse(member_id=member_id, error_code=error))
        for to in group.syncing.values():
            turn.reply(to, SyncGroupResponse(error_code=error))
        group.joining.clear()
        group.syncing.clear()
        group.move(Happening.GONE, turn.now.wall_ms)

    # Membership.

    def join(self, event: Joining, now: Now) -> Effects:
        turn = Turn(now, self.config)
        group_id = event.request.group_id
        group = self.groups.get(group_id)
        if group is not None:
            joining.join(turn, group, event)
        elif event.request.member_id:
            refusal = JoinGroupResponse(member_id=event.request.member_id, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            turn.reply(event.to, refusal)
        else:
            self._join_new_group(turn, ClassicGroup(group_id, state_since_ms=now.wall_ms), event)
        return turn

    def _join_new_group(self, turn: Turn, group: ClassicGroup, event: Joining) -> None:
        # Stored before it has a member, as in Kafka: tools see a group from its first JoinGroup on.
        empty = stored_group(group)
        joining.join(turn, group, event)
        if not group.members and not group.pending_joins:
            return
        self.groups[group.group_id] = group

        def stored(error: ErrorCode, now: Now) -> Effects:
            after = Turn(now, self.config)
            if error and self.groups.get(group.group_id) is group:
                del self.groups[group.group_id]
                self._bury(after, group, error)
                if self.offsets.latest(group.group_id):
                    # Offsets were committed before this write timed out. Both are in the log; offsets need their group.
                    self._replay_group(empty)
            return after

        turn.store(empty, stored)

    def sync(self, request: SyncGroupRequest, to: object, now: Now) -> Effects:
        turn = Turn(now, self.config)
        group = self.groups.get(request.group_id)
        if group is None:
            turn.reply(to, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            membership.sync(turn, group, request, to)
        return turn

    def heartbeat(self, request: HeartbeatRequest, to: object, now: Now) -> Effects:
        turn = Turn(now, self.config)
        group = self.groups.get(request.group_id)
        error = ErrorCode.UNKNOWN_MEMBER_ID
        if group is not None:
            error = membership.heartbeat(
                turn, group, request.member_id, request.group_instance_id, request.generation_id
            )
        turn.reply(to, HeartbeatResponse(error_code=error))
        return turn

    def leave(self, group_id: str, leaving: list[MemberIdentity], to: object, now: Now) -> Effects:
        turn = Turn(now, self.config)
        group = self.groups.get(group_id)
        if group is None:
            unknown = [
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=ErrorCode.UNKNOWN_MEMBER_ID,
                )
                for identity in leaving
            ]
            turn.reply(to, LeaveGroupResponse(members=unknown))
        else:
            turn.reply(to, membership.leave(turn, group, leaving))
        return turn

    def timer_fired(self, key: TimerKey, now: Now) -> Effects:
        turn = Turn(now, self.config)
        if key == EXPIRY_TIMER:
            self._expire(turn)
            return turn
        if key == PURGE_TIMER:
            self._purge(turn)
            return turn
        kind, group_id, member_id = key
        group = self.groups.get(group_id)
        if group is None:
            return turn
        match kind:
            case "session":
                membership.session_timer_fired(turn, group, member_id)
            case "join":
                rebalance.join_timer_fired(turn, group)
            case "sync":
                rebalance.sync_timer_fired(turn, group)
            case _:
                raise InvariantBroken(f"no timer is called {kind}")
        return turn

    # Offsets.

    def commit_offsets(self, request: OffsetCommitRequest, version: int, to: object, now: Now) -> Effects:
        turn = Turn(now, self.config)
        try:
            committing.validate_commit(turn, self.groups.get(request.group_id), request, version)
        except KafkaError as refusal:
            turn.reply(to, committing.refused(request, refusal.code))
            return turn
        self._commit(turn, request, to, None)
        return turn

    def commit_offsets_in_transaction(
        self, request: OffsetCommitRequest, version: int, producer: Producer, to: object, now: Now
    ) -> Effects:
        """As `commit_offsets`, for TxnOffsetCommit: the offsets count from the transaction's marker on."""
        turn = Turn(now, self.config)
        try:
            committing.validate_transactional_commit(self.groups.get(request.group_id), request, version)
        except KafkaError as refusal:
            turn.reply(to, committing.refused(request, refusal.code))
            return turn
        self._commit(turn, request, to, producer)
        return turn

    def _commit(self, turn: Turn, request: OffsetCommitRequest, to: object, producer: Producer | None) -> None:
        changes, response = committing.commit(turn, request)
        if changes:
            turn.write(changes, then_reply(to, response, partial(committing.refused, request)), producer=producer)
        else:
            turn.reply(to, response)

    def end_transaction(self, marker: TxnMarker, to: object, now: Now) -> Effects:
        """Commits or drops what this producer's transaction wrote here. Answers with nothing, or with a KafkaError."""
        turn = Turn(now, self.config)
        turn.end_transaction(marker, then_reply(to, None))
        return turn

    def committed_offsets(self, group_id: str) -> Mapping[PartitionKey, CommittedOffset]:
        return self.offsets.committed(group_id)

    def pending_offsets(self, group_id: str) -> Collection[PartitionKey]:
        """Partitions whose offset an open transaction may still change."""
        return self.offsets.pending(group_id)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[PartitionKey], to: object, now: Now
    ) -> tuple[dict[PartitionKey, ErrorCode], Effects]:
        """An error per partition. The caller sends them once `to` is answered (with nothing)."""
        turn = Turn(now, self.config)
        group = self._existing(group_id)
        committing.validate_delete_offsets(group)
        known = {*self.offsets.latest(group_id), *self.offsets.pending(group_id)}
        errors = {
            partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            if group.is_subscribed_to(partition.topic)
            else ErrorCode.NONE
            for partition in partitions
        }
        removed = [partition for partition, error in errors.items() if not error and partition in known]
        if removed:
            turn.write(committing.forget(group_id, removed), then_reply(to, None))
        else:
            turn.reply(to, None)
        return errors, turn

    def metadata_changed(self, now: Now, image: ClusterImage, delta: ImageDelta) -> Effects:  # noqa: ARG002
        turn = Turn(now, self.config)
        self._forget_topics(turn, {topic.topic_id: topic.name for topic in delta.deleted})
        return turn

    def _topics_without(self, ids: Container[bytes]) -> dict[bytes, str]:
        """Topics that were deleted before their offsets were removed, or during loading."""
        return {
            committed.topic_id: partition.topic
            for _, partition, committed in self.offsets.everything()
            if committed.topic_id != ZERO_UUID and committed.topic_id not in ids
        }

    def _forget_topics(self, turn: Turn, names_by_id: Mapping[bytes, str]) -> None:
        """Removes the offsets of deleted topics. A topic recreated under an old name keeps its offsets."""
        if names_by_id:
            self._gone_topics.update(names_by_id)
            self._purging = None
            turn.set_timer(PURGE_TIMER, 0)

    def _purge(self, turn: Turn) -> None:
        if self._purging is None:
            # Those of open transactions come first: their markers would make them committed offsets.
            self._purging = Sweep(self.groups)
            changes = list(self._of_gone_topics(self.offsets.open()))
        else:
            changes = self._purge_slice(self._purging)
        if changes:
            turn.write(changes, self._purged)
        if changes or self._purging:
            turn.set_timer(PURGE_TIMER, 0)
        else:
            self._gone_topics.clear()

    def _purge_slice(self, sweep: Sweep) -> list[Change]:
        changes: list[Change] = []
        for group_id in sweep.slice(self.offsets):
            of_group = ((group_id, *committed) for committed in self.offsets.latest(group_id).items())
            changes += islice(self._of_gone_topics(of_group), REMOVED_PER_TURN - len(changes))
            if len(changes) == REMOVED_PER_TURN:
                sweep.look_again(group_id)
                break
        return changes

    def _purged(self, error: ErrorCode, now: Now) -> Effects:
        after = Effects(now)
        if error:
            self._purging = None
            after.set_timer(PURGE_TIMER, _RETRY_MS)
        return after

    def _of_gone_topics(self, offsets: Iterable[tuple[str, PartitionKey, CommittedOffset]]) -> Iterator[Change]:
        names = frozenset(self._gone_topics.values())
        for group_id, partition, committed in offsets:
            topic_id = committed.topic_id
            if topic_id in self._gone_topics or (topic_id == ZERO_UUID and partition.topic in names):
                yield OffsetStored(group_id, partition, None)

    def _expire(self, turn: Turn) -> None:
        if self._expiring is None:
            self._expiring = Sweep(self.groups)
        changes: list[Change] = []
        for group_id in self._expiring.slice(self.offsets):
            group = self.groups.get(group_id)
            if group is not None:
                changes += committing.expiry(group, self.offsets, self.config, turn.now.wall_ms)
            if len(changes) >= REMOVED_PER_TURN:
                # A group is removed after its offsets: the next turn finds what is left of a large one.
                del changes[REMOVED_PER_TURN:]
                self._expiring.look_again(group_id)
                break
        if changes:
            turn.write(changes, then_nothing)
        if self._expiring:
            turn.set_timer(EXPIRY_TIMER, _RETRY_MS if len(changes) == REMOVED_PER_TURN else 0)
        else:
            self._expiring = None
            turn.set_timer(EXPIRY_TIMER, self.config.offsets_retention_check_interval_ms)

    # Groups as a whole.

    def select(self, states: frozenset[str], types: frozenset[str]) -> Iterator[ClassicGroup]:
        """By lower-case names; an empty filter selects everything."""
        for group in self.groups.values():
            if (not states or group.state.value.lower() in states) and (not types or group.group_type in types):
                yield group

    def delete(self, group_id: str, to: object, now: Now) -> Effects:
        """Raises KafkaError when the group cannot be deleted."""
        turn = Turn(now, self.config)
        turn.write(committing.deletion(self._existing(group_id), self.offsets), then_reply(to, None))
        return turn

    def _existing(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group
