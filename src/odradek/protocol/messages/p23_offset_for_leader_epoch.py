"""API 23, OffsetForLeaderEpoch, versions 2-4. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string


class OffsetForLeaderPartition(Struct):
    partition: int = int32("0+", default=0)
    current_leader_epoch: int = int32("2+", default=-1)
    leader_epoch: int = int32("0+", default=0)


class OffsetForLeaderTopic(Struct):
    topic: str = string("0+", default="")
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition, "0+", factory=list)


class OffsetForLeaderEpochRequest(Message, key=23, versions="2-4", flexible="4+"):
    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic, "0+", factory=list)


class EpochEndOffset(Struct):
    error_code: int = int16("0+", default=0)
    partition: int = int32("0+", default=0)
    leader_epoch: int = int32("1+", default=-1)
    end_offset: int = int64("0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = string("0+", default="")
    partitions: list[EpochEndOffset] = array(EpochEndOffset, "0+", factory=list)


class OffsetForLeaderEpochResponse(Message, key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: int = int32("2+", default=0)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult, "0+", factory=list)
