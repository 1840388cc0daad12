"""API 59, FetchSnapshot, versions 0-1. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.base.ids import ZERO_UUID
from odradek.protocol.schema import Message, Struct, array, binary, int16, int32, int64, string, struct, uint16, uuid


class SnapshotId(Struct):
    end_offset: int = int64("0+", default=0)
    epoch: int = int32("0+", default=0)


class FetchSnapshotRequestPartitionSnapshot(Struct):
    partition: int = int32("0+", default=0)
    current_leader_epoch: int = int32("0+", default=0)
    snapshot_id: SnapshotId = struct(SnapshotId, "0+", factory=SnapshotId)
    position: int = int64("0+", default=0)
    replica_directory_id: bytes = uuid("1+", tag=0, default=ZERO_UUID)


class FetchSnapshotRequestTopicSnapshot(Struct):
    name: str = string("0+", default="")
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = array(
        FetchSnapshotRequestPartitionSnapshot, "0+", factory=list
    )


class FetchSnapshotRequest(Message, key=59, versions="0-1", flexible="0+"):
    cluster_id: str | None = string("0+", nullable="0+", tag=0, default=None)
    replica_id: int = int32("0+", default=-1)
    max_bytes: int = int32("0+", default=2147483647)
    topics: list[FetchSnapshotRequestTopicSnapshot] = array(FetchSnapshotRequestTopicSnapshot, "0+", factory=list)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    snapshot_id: SnapshotId = struct(SnapshotId, "0+", factory=SnapshotId)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "0+", tag=0, factory=LeaderIdAndEpoch)
    size: int = int64("0+", default=0)
    position: int = int64("0+", default=0)
    unaligned_records: bytes = binary("0+", default=b"")


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: str = string("0+", default="")
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = array(
        FetchSnapshotResponsePartitionSnapshot, "0+", factory=list
    )


class NodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class FetchSnapshotResponse(Message, key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    topics: list[FetchSnapshotResponseTopicSnapshot] = array(FetchSnapshotResponseTopicSnapshot, "0+", factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, factory=list)
