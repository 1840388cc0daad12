"""Keys and values of `__consumer_offsets`. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, binary, int32, int64, string, uuid


class LegacyOffsetCommitKey(Message, key=0, versions="0"):
    group: str = string("0", default="")
    topic: str = string("0", default="")
    partition: int = int32("0", default=0)


class LegacyOffsetCommitValue(Message, key=0, versions="0"):
    offset: int = int64("0", default=0)
    metadata: str = string("0", default="")
    commit_timestamp: int = int64("0", default=0)


class OffsetCommitKey(Message, key=1, versions="0"):
    group: str = string("0", default="")
    topic: str = string("0", default="")
    partition: int = int32("0", default=0)


class OffsetCommitValue(Message, key=1, versions="0-4", flexible="4+"):
    offset: int = int64("0+", default=0)
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string("0+", default="")
    commit_timestamp: int = int64("0+", default=0)
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", tag=0, default=ZERO_UUID)


class GroupMetadataKey(Message, key=2, versions="0"):
    group: str = string("0", default="")


class MemberMetadata(Struct):
    member_id: str = string("0+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string("0+", default="")
    client_host: str = string("0+", default="")
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32("0+", default=0)
    subscription: bytes = binary("0+", default=b"")
    assignment: bytes = binary("0+", default=b"")


class GroupMetadataValue(Message, key=2, versions="0-4", flexible="4+"):
    protocol_type: str = string("0+", default="")
    generation: int = int32("0+", default=0)
    protocol: str | None = string("0+", nullable="0+", default="")
    leader: str | None = string("0+", nullable="0+", default="")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata, "0+", factory=list)
