"""DescribeQuorum 0-2: who leads the metadata log, who votes, and how far each has followed. Only the leader knows.

1 adds times, 2 directories, endpoints and error messages.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError, NotController
from odradek.metadata.metadata_log import METADATA_PARTITION
from odradek.protocol.messages.p55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from odradek.quorum.progress import ReplicaProgress
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext


def handle(ctx: ControllerContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    if not ctx.authorize(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None)
    if not ctx.controller.quorum.is_leading:
        raise NotController(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return _described(ctx, request)


def refuse(ctx: ControllerContext, request: DescribeQuorumRequest, _refused: KafkaError) -> DescribeQuorumResponse:
    """Puts the error in the partition, and still lists the voters."""
    return _described(ctx, request)


def _described(ctx: ControllerContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    quorum = ctx.controller.quorum
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[_partition(ctx, topic.topic_name, each.partition_index) for each in topic.partitions],
            )
            for topic in request.topics
        ],
        nodes=[
            Node(
                node_id=voter.key.voter_id,
                listeners=[Listener(name=each.name, host=each.host, port=each.port) for each in voter.endpoints],
            )
            for voter in quorum.voters.voters
        ],
    )


def _partition(ctx: ControllerContext, topic: str, index: int) -> DescribeQuorumResponsePartitionData:
    described = DescribeQuorumResponsePartitionData(partition_index=index, error_message=None)
    quorum = ctx.controller.quorum
    if (topic, index) != METADATA_PARTITION:
        described.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not quorum.is_leading:
        described.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        described.leader_id, described.leader_epoch = quorum.leader_id, quorum.leader_epoch
        described.high_watermark = quorum.core.high_watermark
        # The response has wall-clock times; the quorum uses the monotonic clock.
        ahead_ms = ctx.controller.clock.wall_ms() - ctx.controller.clock.monotonic_ms()
        voters = quorum.voters.keys
        progress = quorum.core.progress()
        described.current_voters = [_state(each, ahead_ms) for each in progress if each.key in voters]
        described.observers = [_state(each, ahead_ms) for each in progress if each.key not in voters]
    return described


def _state(replica: ReplicaProgress, ahead_ms: int) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.key.voter_id,
        replica_directory_id=replica.key.directory_id,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=max(-1, replica.last_fetch_ms + ahead_ms),
        last_caught_up_timestamp=max(-1, replica.caught_up_ms + ahead_ms),
    )


API = Api(key=55, versions=(0, 2), request=DescribeQuorumRequest, handle=handle, refuse=refuse)
