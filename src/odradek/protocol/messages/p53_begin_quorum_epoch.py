"""API 53, BeginQuorumEpoch, versions 0-1. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, int16, int32, string, uint16, uuid


class BeginQuorumEpochRequestPartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    voter_directory_id: bytes = uuid("1+", default=ZERO_UUID)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)


class BeginQuorumEpochRequestTopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[BeginQuorumEpochRequestPartitionData] = array(
        BeginQuorumEpochRequestPartitionData, "0+", factory=list
    )


class LeaderEndpoint(Struct):
    name: str = string("1+", default="")
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class BeginQuorumEpochRequest(Message, key=53, versions="0-1", flexible="1+"):
    cluster_id: str | None = string("0+", nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1)
    topics: list[BeginQuorumEpochRequestTopicData] = array(BeginQuorumEpochRequestTopicData, "0+", factory=list)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", factory=list)


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[BeginQuorumEpochResponsePartitionData] = array(
        BeginQuorumEpochResponsePartitionData, "0+", factory=list
    )


class NodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class BeginQuorumEpochResponse(Message, key=53, versions="0-1", flexible="1+"):
    error_code: int = int16("0+", default=0)
    topics: list[BeginQuorumEpochResponseTopicData] = array(BeginQuorumEpochResponseTopicData, "0+", factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, factory=list)
