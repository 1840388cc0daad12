"""API 1, Fetch, versions 4-18. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, binary, int8, int16, int32, int64, string, struct, uuid


class ReplicaState(Struct):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Struct):
    partition: int = int32("0+", default=0)
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64("0+", default=0)
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32("0+", default=0)
    replica_directory_id: bytes = uuid("17+", tag=0, default=ZERO_UUID)
    high_watermark: int = int64("18+", tag=1, default=9223372036854775807)


class FetchTopic(Struct):
    topic: str = string("0-12", default="")
    topic_id: bytes = uuid("13+", default=ZERO_UUID)
    partitions: list[FetchPartition] = array(FetchPartition, "0+", factory=list)


class ForgottenTopic(Struct):
    topic: str = string("7-12", default="")
    topic_id: bytes = uuid("13+", default=ZERO_UUID)
    partitions: list[int] = array(int32, "7+", factory=list)


class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", tag=1, factory=ReplicaState)
    max_wait_ms: int = int32("0+", default=0)
    min_bytes: int = int32("0+", default=0)
    max_bytes: int = int32("3+", default=2147483647)
    isolation_level: int = int8("4+", default=0)
    session_id: int = int32("7+", default=0)
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic, "0+", factory=list)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+", factory=list)
    rack_id: str = string("11+", default="")


class EpochEndOffset(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64("4+", default=0)
    first_offset: int = int64("4+", default=0)


class PartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    high_watermark: int = int64("0+", default=0)
    last_stable_offset: int = int64("4+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, "12+", tag=0, factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "12+", tag=1, factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = struct(SnapshotId, "12+", tag=2, factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, "4+", nullable="4+", factory=list)
    preferred_read_replica: int = int32("11+", default=-1)
    records: bytes | None = binary("0+", nullable="0+", default=None)


class FetchableTopicResponse(Struct):
    topic: str = string("0-12", default="")
    topic_id: bytes = uuid("13+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "0+", factory=list)


class NodeEndpoint(Struct):
    node_id: int = int32("16+", default=0)
    host: str = string("16+", default="")
    port: int = int32("16+", default=0)
    rack: str | None = string("16+", nullable="16+", default=None)


class FetchResponse(Message, key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("7+", default=0)
    session_id: int = int32("7+", default=0)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse, "0+", factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0, factory=list)
