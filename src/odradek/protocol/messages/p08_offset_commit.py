"""API 8, OffsetCommit, versions 2-10. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string, uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32("0+", default=0)
    committed_offset: int = int64("0+", default=0)
    committed_leader_epoch: int = int32("6+", default=-1)
    committed_metadata: str | None = string("0+", nullable="0+", default="")


class OffsetCommitRequestTopic(Struct):
    name: str = string("0-9", default="")
    topic_id: bytes = uuid("10+", default=ZERO_UUID)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition, "0+", factory=list)


class OffsetCommitRequest(Message, key=8, versions="2-10", flexible="8+"):
    group_id: str = string("0+", default="")
    generation_id_or_member_epoch: int = int32("1+", default=-1)
    member_id: str = string("1+", default="")
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic, "0+", factory=list)


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class OffsetCommitResponseTopic(Struct):
    name: str = string("0-9", default="")
    topic_id: bytes = uuid("10+", default=ZERO_UUID)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition, "0+", factory=list)


class OffsetCommitResponse(Message, key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: int = int32("3+", default=0)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic, "0+", factory=list)
