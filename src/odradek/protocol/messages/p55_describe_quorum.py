"""API 55, DescribeQuorum, versions 0-2. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, int16, int32, int64, string, uint16, uuid


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: int = int32("0+", default=0)


class DescribeQuorumRequestTopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[DescribeQuorumRequestPartitionData] = array(DescribeQuorumRequestPartitionData, "0+", factory=list)


class DescribeQuorumRequest(Message, key=55, versions="0-2", flexible="0+"):
    topics: list[DescribeQuorumRequestTopicData] = array(DescribeQuorumRequestTopicData, "0+", factory=list)


class ReplicaState(Struct):
    replica_id: int = int32("0+", default=0)
    replica_directory_id: bytes = uuid("2+", default=ZERO_UUID)
    log_end_offset: int = int64("0+", default=0)
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("2+", nullable="2+", default="")
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    high_watermark: int = int64("0+", default=0)
    current_voters: list[ReplicaState] = array(ReplicaState, "0+", factory=list)
    observers: list[ReplicaState] = array(ReplicaState, "0+", factory=list)


class DescribeQuorumResponseTopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[DescribeQuorumResponsePartitionData] = array(
        DescribeQuorumResponsePartitionData, "0+", factory=list
    )


class Listener(Struct):
    name: str = string("2+", default="")
    host: str = string("2+", default="")
    port: int = uint16("2+", default=0)


class Node(Struct):
    node_id: int = int32("2+", default=0)
    listeners: list[Listener] = array(Listener, "2+", factory=list)


class DescribeQuorumResponse(Message, key=55, versions="0-2", flexible="0+"):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("2+", nullable="2+", default="")
    topics: list[DescribeQuorumResponseTopicData] = array(DescribeQuorumResponseTopicData, "0+", factory=list)
    nodes: list[Node] = array(Node, "2+", factory=list)
