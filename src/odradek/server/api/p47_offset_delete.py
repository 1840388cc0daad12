"""OffsetDelete 0: forget a group's offsets of topics that it does not read."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.effects import Effects, Now
from odradek.coordinator.group.changes import PartitionKey
from odradek.coordinator.group.shard import GroupShard
from odradek.protocol.messages.p47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext


async def handle(ctx: BrokerContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    if not ctx.authorize(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    errors = {
        PartitionKey(topic.name, partition.partition_index): _refusal(ctx, topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    }
    wanted = [partition for partition, error in errors.items() if not error]

    def turn(shard: GroupShard, to: object, now: Now) -> Effects:
        decided, effects = shard.delete_offsets(request.group_id, wanted, to, now)
        errors.update(decided)
        return effects

    try:
        await ctx.broker.groups.answered(request.group_id, turn)
    except KafkaError as refusal:
        return OffsetDeleteResponse(error_code=refusal.code)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=errors[PartitionKey(topic.name, partition.partition_index)],
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _refusal(ctx: BrokerContext, name: str, index: int) -> ErrorCode:
    if not ctx.authorize(Operation.READ, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = ctx.broker.image.topics.get(name)
    exists = topic is not None and 0 <= index < len(topic.partitions)
    return ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


API = Api(key=47, versions=(0, 0), request=OffsetDeleteRequest, handle=handle)
