"""Offsets: who may commit, what a fetch shows, what may be deleted and what expires."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.changes import CommittedOffset, GroupStored, OffsetStored, PartitionKey
from odradek.coordinator.group.classic_group import NO_TIMESTAMP, ClassicGroup
from odradek.coordinator.group.config import GroupConfig
from odradek.coordinator.group.offsets import OffsetStore
from odradek.coordinator.group.states import COMMIT_ANSWERS, GroupState
from odradek.coordinator.group.turn import Turn
from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

LAST_TIMESTAMP_MS = (1 << 63) - 1
_SESSION_KEEPING = (GroupState.STABLE, GroupState.PREPARING_REBALANCE)


def validate_commit(turn: Turn, group: ClassicGroup | None, request: OffsetCommitRequest, version: int) -> None:
    """Raises KafkaError unless the sender is a member of the current generation, or a simple consumer."""
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation >= 0:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION)
        return
    if generation < 0 and group.state is GroupState.EMPTY:
        return
    if generation < 0 and not _names_member(request):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{group.group_id} has members: only they may commit")
    group.validate_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    refusal = COMMIT_ANSWERS.get(group.state)
    if refusal is not None:
        raise KafkaError(refusal)
    if group.state in _SESSION_KEEPING:
        turn.expect_heartbeat(group, group.members[request.member_id])


def validate_transactional_commit(group: ClassicGroup | None, request: OffsetCommitRequest, version: int) -> None:
    """As `validate_commit`, for TxnOffsetCommit. Clients before version 3 do not say which member they are."""
    generation = request.generation_id_or_member_epoch
    if group is None:
        if generation >= 0:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.ILLEGAL_GENERATION)
        return
    if generation < 0 and (group.state is GroupState.EMPTY or not _names_member(request)):
        return
    group.validate_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _names_member(request: OffsetCommitRequest) -> bool:
    return bool(request.member_id) or request.group_instance_id is not None


def commit(turn: Turn, request: OffsetCommitRequest) -> tuple[list[OffsetStored], OffsetCommitResponse]:
    """What to write for a commit that is allowed, and what to answer once it is written."""
    now_ms = turn.now.wall_ms
    expire_ms = NO_TIMESTAMP
    if request.retention_time_ms >= 0:
        expire_ms = min(now_ms + request.retention_time_ms, LAST_TIMESTAMP_MS)
    metadata_max = turn.config.offset_metadata_max_bytes
    changes: list[OffsetStored] = []
    answers: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        partitions: list[OffsetCommitResponsePartition] = []
        for asked in topic.partitions:
            metadata = asked.committed_metadata or ""
            error = ErrorCode.NONE
            if len(metadata) > metadata_max:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed = CommittedOffset(
                    asked.committed_offset, asked.committed_leader_epoch, metadata, now_ms, expire_ms, topic.topic_id
                )
                key = PartitionKey(topic.name, asked.partition_index)
                changes.append(OffsetStored(request.group_id, key, committed))
            partitions.append(OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=error))
        answers.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return changes, OffsetCommitResponse(topics=answers)


def refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The response has no top-level error field, so every partition carries the error."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=error)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def validate_delete_offsets(group: ClassicGroup) -> None:
    if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)


def forget(group_id: str, partitions: Iterable[PartitionKey]) -> list[OffsetStored]:
    return [OffsetStored(group_id, partition, None) for partition in partitions]


def deletion(group: ClassicGroup, offsets: OffsetStore) -> list[OffsetStored | GroupStored]:
    if group.state is not GroupState.EMPTY:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    known = {**offsets.latest(group.group_id), **dict.fromkeys(offsets.pending(group.group_id))}
    return [*forget(group.group_id, known), GroupStored(group.group_id, None)]


def expiry(
    group: ClassicGroup, offsets: OffsetStore, config: GroupConfig, wall_ms: int
) -> list[OffsetStored | GroupStored]:
    """The group's expired offsets, and the group itself once it is empty and has no offsets left."""
    of_group, pending = offsets.latest(group.group_id), offsets.pending(group.group_id)
    expired = [
        partition
        for partition, committed in of_group.items()
        if partition not in pending
        and not group.is_subscribed_to(partition.topic)
        and _is_expired(group, committed, config, wall_ms)
    ]
    changes: list[OffsetStored | GroupStored] = [*forget(group.group_id, expired)]
    is_unused = group.state is GroupState.EMPTY and not group.pending_joins and not pending
    if is_unused and len(expired) == len(of_group):
        changes.append(GroupStored(group.group_id, None))
    return changes


def _is_expired(group: ClassicGroup, committed: CommittedOffset, config: GroupConfig, wall_ms: int) -> bool:
    if group.protocol_type is not None and group.state is not GroupState.EMPTY:
        # While the group has members, offsets expire only if it is stable and known not to subscribe to the topic.
        if group.state is not GroupState.STABLE or group.subscribed is None:
            return False
        since_ms = committed.commit_timestamp_ms
    elif group.protocol_type is not None and group.state_since_ms != NO_TIMESTAMP:
        since_ms = group.state_since_ms
    else:
        since_ms = committed.commit_timestamp_ms
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return wall_ms >= committed.expire_timestamp_ms
    return wall_ms - since_ms >= config.offsets_retention_ms
