"""API 46, ListPartitionReassignments, versions 0. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int16, int32, string


class ListPartitionReassignmentsTopics(Struct):
    name: str = string("0+", default="")
    partition_indexes: list[int] = array(int32, "0+", factory=list)


class ListPartitionReassignmentsRequest(Message, key=46, versions="0", flexible="0+"):
    timeout_ms: int = int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = int32("0+", default=0)
    replicas: list[int] = array(int32, "0+", factory=list)
    adding_replicas: list[int] = array(int32, "0+", factory=list)
    removing_replicas: list[int] = array(int32, "0+", factory=list)


class OngoingTopicReassignment(Struct):
    name: str = string("0+", default="")
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment, "0+", factory=list)


class ListPartitionReassignmentsResponse(Message, key=46, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment, "0+", factory=list)
