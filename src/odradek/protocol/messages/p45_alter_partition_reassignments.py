"""API 45, AlterPartitionReassignments, versions 0-1. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, string


class ReassignablePartition(Struct):
    partition_index: int = int32("0+", default=0)
    replicas: list[int] | None = array(int32, "0+", nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[ReassignablePartition] = array(ReassignablePartition, "0+", factory=list)


class AlterPartitionReassignmentsRequest(Message, key=45, versions="0-1", flexible="0+"):
    timeout_ms: int = int32("0+", default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic, "0+", factory=list)


class ReassignablePartitionResponse(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")


class ReassignableTopicResponse(Struct):
    name: str = string("0+", default="")
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse, "0+", factory=list)


class AlterPartitionReassignmentsResponse(Message, key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse, "0+", factory=list)
