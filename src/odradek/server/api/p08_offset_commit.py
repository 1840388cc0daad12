"""OffsetCommit 2-10: store how far a group has read.

2-4: the client may say how long to keep the offset. 5: retention is the broker's. 6: leader epoch. 7: static members.
9: an unknown group is GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION before. 10: topics by id.

The topic's id is stored with the offset in every version: a topic recreated under the same name starts without offsets.
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.committing import refused
from odradek.metadata.image import TopicImage
from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext

BY_TOPIC_ID = 10


def handle(ctx: BrokerContext, request: OffsetCommitRequest) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    if not ctx.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    unknown: list[OffsetCommitResponseTopic] = []
    request.topics = [known for topic in request.topics if (known := _known(ctx, topic, unknown)) is not None]
    if not request.topics:
        return OffsetCommitResponse(topics=unknown)
    try:
        answer = ctx.broker.groups.ask(
            request.group_id, lambda shard, to, now: shard.commit_offsets(request, ctx.version, to, now)
        )
    except KafkaError as refusal:
        answer = refused(request, refusal.code)
    if isinstance(answer, OffsetCommitResponse):
        answer.topics += unknown
        return answer
    return _committed_later(answer, unknown)


async def _committed_later(
    answer: Awaitable[OffsetCommitResponse], unknown: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    response = await answer
    response.topics += unknown
    return response


def _known(
    ctx: BrokerContext, topic: OffsetCommitRequestTopic, unknown: list[OffsetCommitResponseTopic]
) -> OffsetCommitRequestTopic | None:
    """The topic with name and id and those of its partitions that exist; the rest goes to `unknown`."""
    image, error = _find(ctx, topic)
    if image is None:
        unknown.append(_refused(topic, topic.partitions, error))
        return None
    topic.name, topic.topic_id = image.name, image.topic_id
    count = len(image.partitions)
    missing = [asked for asked in topic.partitions if not 0 <= asked.partition_index < count]
    if missing:
        unknown.append(_refused(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        topic.partitions = [asked for asked in topic.partitions if 0 <= asked.partition_index < count]
    return topic if topic.partitions else None


def _find(ctx: BrokerContext, topic: OffsetCommitRequestTopic) -> tuple[TopicImage | None, ErrorCode]:
    image = ctx.broker.image
    by_id = ctx.version >= BY_TOPIC_ID
    found = image.topics_by_id.get(topic.topic_id) if by_id else image.topics.get(topic.name)
    if found is None and by_id:
        return None, ErrorCode.UNKNOWN_TOPIC_ID
    if not ctx.authorize(Operation.READ, ResourceType.TOPIC, topic.name if found is None else found.name):
        return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return found, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refused(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], error: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=error)
            for asked in partitions
        ],
    )


API = Api(key=8, versions=(2, 10), request=OffsetCommitRequest, handle=handle)
