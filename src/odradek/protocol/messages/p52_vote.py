"""API 52, Vote, versions 0-2. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string, uint16, uuid


class VoteRequestPartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    replica_epoch: int = int32("0+", default=0)
    replica_id: int = int32("0+", default=0)
    replica_directory_id: bytes = uuid("1+", default=ZERO_UUID)
    voter_directory_id: bytes = uuid("1+", default=ZERO_UUID)
    last_offset_epoch: int = int32("0+", default=0)
    last_offset: int = int64("0+", default=0)
    pre_vote: bool = boolean("2+", default=False)


class VoteRequestTopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[VoteRequestPartitionData] = array(VoteRequestPartitionData, "0+", factory=list)


class VoteRequest(Message, key=52, versions="0-2", flexible="0+"):
    cluster_id: str | None = string("0+", nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1)
    topics: list[VoteRequestTopicData] = array(VoteRequestTopicData, "0+", factory=list)


class VoteResponsePartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    vote_granted: bool = boolean("0+", default=False)


class VoteResponseTopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[VoteResponsePartitionData] = array(VoteResponsePartitionData, "0+", factory=list)


class NodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class VoteResponse(Message, key=52, versions="0-2", flexible="0+"):
    error_code: int = int16("0+", default=0)
    topics: list[VoteResponseTopicData] = array(VoteResponseTopicData, "0+", factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, factory=list)
