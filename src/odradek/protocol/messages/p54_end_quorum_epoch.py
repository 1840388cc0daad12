"""API 54, EndQuorumEpoch, versions 0-1. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, int16, int32, string, uint16, uuid


class ReplicaInfo(Struct):
    candidate_id: int = int32("1+", default=0)
    candidate_directory_id: bytes = uuid("1+", default=ZERO_UUID)


class EndQuorumEpochRequestPartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    preferred_successors: list[int] = array(int32, "0", factory=list)
    preferred_candidates: list[ReplicaInfo] = array(ReplicaInfo, "1+", factory=list)


class EndQuorumEpochRequestTopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[EndQuorumEpochRequestPartitionData] = array(EndQuorumEpochRequestPartitionData, "0+", factory=list)


class LeaderEndpoint(Struct):
    name: str = string("1+", default="")
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class EndQuorumEpochRequest(Message, key=54, versions="0-1", flexible="1+"):
    cluster_id: str | None = string("0+", nullable="0+", default=None)
    topics: list[EndQuorumEpochRequestTopicData] = array(EndQuorumEpochRequestTopicData, "0+", factory=list)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", factory=list)


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[EndQuorumEpochResponsePartitionData] = array(
        EndQuorumEpochResponsePartitionData, "0+", factory=list
    )


class NodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class EndQuorumEpochResponse(Message, key=54, versions="0-1", flexible="1+"):
    error_code: int = int16("0+", default=0)
    topics: list[EndQuorumEpochResponseTopicData] = array(EndQuorumEpochResponseTopicData, "0+", factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, factory=list)
