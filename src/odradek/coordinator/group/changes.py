"""What the groups of a partition write: two kinds of change, and their records in `__consumer_offsets`.

A record's key begins with its kind, its value with the version of its schema; no value means removed. We write the
versions that Kafka 4 and the tools that read this topic know: offsets 4 (1 when they carry their own expiry), groups 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from odradek.base.ids import ZERO_UUID, Offset
from odradek.base.invariants import InvariantBroken
from odradek.coordinator.group.classic_group import NO_TIMESTAMP, ClassicGroup, Member, SupportedProtocol
from odradek.coordinator.group.states import GroupState
from odradek.protocol.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_key,
    decode_group_value,
    encode_group_key,
    encode_group_value,
)

_OFFSET_VERSION = 4
_OFFSET_VERSION_WITH_EXPIRY = 1
_GROUP_VERSION = 3
NOT_WRITTEN = Offset(-1)


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    # NO_TIMESTAMP: the broker's retention counts. Only OffsetCommit up to version 4 can say otherwise.
    expire_timestamp_ms: int = NO_TIMESTAMP
    # Zero in records older than topic ids.
    topic_id: bytes = ZERO_UUID
    # Where its record is in the log. Not part of the record.
    at: Offset = NOT_WRITTEN


class PartitionKey(NamedTuple):
    topic: str
    partition: int


class OffsetStored(NamedTuple):
    group_id: str
    partition: PartitionKey
    # None: the offset was deleted or has expired.
    committed: CommittedOffset | None


class GroupStored(NamedTuple):
    group_id: str
    # None: the group was deleted or has expired.
    value: GroupMetadataValue | None


Change = OffsetStored | GroupStored


def stored_group(group: ClassicGroup, assignments: Mapping[str, bytes] | None = None) -> GroupStored:
    """The group as it stands, with assignments that its members may not have yet."""
    given = assignments or {}
    return GroupStored(
        group.group_id,
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol_name,
            leader=group.leader,
            current_state_timestamp=group.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(group.protocol_name),
                    assignment=given[member.member_id],
                )
                for member in group.members.values()
            ],
        ),
    )


def restored_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    group = ClassicGroup(
        group_id,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        state_since_ms=value.current_state_timestamp,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        generation=value.generation,
        leader=value.leader,
    )
    for stored in value.members:
        member = Member(
            member_id=stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.session_timeout if stored.rebalance_timeout < 0 else stored.rebalance_timeout,
            session_timeout_ms=stored.session_timeout,
            protocols=(SupportedProtocol(value.protocol or "", stored.subscription),),
            assignment=stored.assignment,
        )
        group.add(member, value.protocol_type)
    group.refresh_subscription()
    return group


def encode(change: Change) -> tuple[bytes, bytes | None]:
    if isinstance(change, OffsetStored):
        return _encode_offset(change)
    key = encode_group_key(GroupMetadataKey(group=change.group_id))
    return key, None if change.value is None else encode_group_value(change.value, _GROUP_VERSION)


def _encode_offset(change: OffsetStored) -> tuple[bytes, bytes | None]:
    key = _offset_key(change.group_id, *change.partition)
    committed = change.committed
    if committed is None:
        return key, None
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    has_expiry = committed.expire_timestamp_ms != NO_TIMESTAMP
    return key, encode_group_value(value, _OFFSET_VERSION_WITH_EXPIRY if has_expiry else _OFFSET_VERSION)


@lru_cache(maxsize=16_384)
def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Remembered, since a consumer commits the same partitions again and again."""
    return encode_group_key(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def decode(key: bytes, value: bytes | None) -> Change:
    """`UnknownRecordType` for what this broker does not know, `MalformedMessage` for what it knows and cannot read."""
    decoded = decode_group_key(key)
    stored = None if value is None else decode_group_value(decoded, value)
    match decoded, stored:
        case GroupMetadataKey(), None | GroupMetadataValue():
            return GroupStored(decoded.group, stored)
        case OffsetCommitKey() | LegacyOffsetCommitKey(), None:
            return OffsetStored(decoded.group, PartitionKey(decoded.topic, decoded.partition), None)
        case OffsetCommitKey(), OffsetCommitValue():
            committed = CommittedOffset(
                stored.offset,
                stored.leader_epoch,
                stored.metadata,
                stored.commit_timestamp,
                stored.expire_timestamp,
                stored.topic_id,
            )
            return OffsetStored(decoded.group, PartitionKey(decoded.topic, decoded.partition), committed)
        case LegacyOffsetCommitKey(), LegacyOffsetCommitValue():
            committed = CommittedOffset(stored.offset, -1, stored.metadata, stored.commit_timestamp)
            return OffsetStored(decoded.group, PartitionKey(decoded.topic, decoded.partition), committed)
    raise InvariantBroken(f"a {type(decoded).__name__} with a {type(stored).__name__}")
