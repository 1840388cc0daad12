"""API 47, OffsetDelete, versions 0. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = int32("0+", default=0)


class OffsetDeleteRequestTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition, "0+", factory=list)


class OffsetDeleteRequest(Message, key=47, versions="0"):
    group_id: str = string("0+", default="")
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic, "0+", factory=list)


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class OffsetDeleteResponseTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition, "0+", factory=list)


class OffsetDeleteResponse(Message, key=47, versions="0"):
    error_code: int = int16("0+", default=0)
    throttle_time_ms: int = int32("0+", default=0)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic, "0+", factory=list)
