"""OffsetForLeaderEpoch 2-4: where an epoch ended, so that a consumer or follower finds out what was truncated.

Answers with the largest epoch known up to the one asked for, and its end; -1 and -1 when there is none. 3 adds who
asks, 4 is flexible. Needs CLUSTER_ACTION, as brokers have, or DESCRIBE on the topic.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.led_partition import led_partition
from odradek.server.network.request import Api, BrokerContext


def handle(ctx: BrokerContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    is_broker = ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    results: list[OffsetForLeaderTopicResult] = []
    for topic in request.topics:
        allowed = is_broker or ctx.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        results.append(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _end_offset(ctx, topic.topic, asked)
                    if allowed
                    else EpochEndOffset(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=asked.partition)
                    for asked in topic.partitions
                ],
            )
        )
    return OffsetForLeaderEpochResponse(topics=results)


def _end_offset(ctx: BrokerContext, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = led_partition(ctx.broker, topic, asked.partition, asked.current_leader_epoch)
    except KafkaError as refused:
        return EpochEndOffset(error_code=refused.code, partition=asked.partition)
    leader_epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=leader_epoch, end_offset=end_offset)


API = Api(key=23, versions=(2, 4), request=OffsetForLeaderEpochRequest, handle=handle)
