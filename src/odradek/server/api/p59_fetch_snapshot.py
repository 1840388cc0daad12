"""FetchSnapshot 0-1: a part of a metadata snapshot, for a replica whose place in the log is gone. 1: directories."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId, DirectoryId, LeaderEpoch
from odradek.metadata.metadata_log import METADATA_PARTITION
from odradek.protocol.messages.p59_fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
    LeaderIdAndEpoch,
    NodeEndpoint,
    SnapshotId,
)
from odradek.quorum.messages import ReadSnapshot
from odradek.quorum.voters import VoterKey
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext


async def handle(ctx: ControllerContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return FetchSnapshotResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = [
        FetchSnapshotResponseTopicSnapshot(
            name=topic.name, partitions=[await _part(ctx, request, topic.name, each) for each in topic.partitions[:1]]
        )
        for topic in request.topics[:1]
    ]
    endpoints = [
        NodeEndpoint(node_id=node_id, host=each.host, port=each.port)
        for node_id, each in ctx.controller.quorum.leader_endpoints()
    ]
    return FetchSnapshotResponse(topics=topics, node_endpoints=endpoints)


async def _part(
    ctx: ControllerContext, request: FetchSnapshotRequest, topic: str, wanted: FetchSnapshotRequestPartitionSnapshot
) -> FetchSnapshotResponsePartitionSnapshot:
    quorum = ctx.controller.quorum
    part = FetchSnapshotResponsePartitionSnapshot(index=wanted.partition, position=wanted.position)
    part.snapshot_id = SnapshotId(end_offset=wanted.snapshot_id.end_offset, epoch=wanted.snapshot_id.epoch)
    if (topic, wanted.partition) != METADATA_PARTITION:
        part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return part
    read = ReadSnapshot(
        replica=VoterKey(BrokerId(request.replica_id), DirectoryId(wanted.replica_directory_id)),
        cluster_id=request.cluster_id,
        leader_epoch=LeaderEpoch(wanted.current_leader_epoch),
    )
    try:
        answer = await quorum.ask(read)
        part.current_leader = LeaderIdAndEpoch(leader_id=answer.leader_id, leader_epoch=answer.leader_epoch)
        part.error_code = answer.error
        if answer.error is ErrorCode.NONE:
            part.size, part.unaligned_records = await ctx.controller.spawner.blocking(
                quorum.snapshots.part, wanted, request.max_bytes
            )
    except KafkaError as refused:
        part.error_code = refused.code
    return part


API = Api(key=59, versions=(0, 1), request=FetchSnapshotRequest, handle=handle)
