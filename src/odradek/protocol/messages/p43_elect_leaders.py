"""API 43, ElectLeaders, versions 0-2. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, int8, int16, int32, string


class TopicPartitions(Struct):
    topic: str = string("0+", default="")
    partitions: list[int] = array(int32, "0+", factory=list)


class ElectLeadersRequest(Message, key=43, versions="0-2", flexible="2+"):
    election_type: int = int8("1+", default=0)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+", factory=list)
    timeout_ms: int = int32("0+", default=60000)


class PartitionResult(Struct):
    partition_id: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")


class ReplicaElectionResult(Struct):
    topic: str = string("0+", default="")
    partition_result: list[PartitionResult] = array(PartitionResult, "0+", factory=list)


class ElectLeadersResponse(Message, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+", factory=list)
