"""The topics of an OffsetCommit request: name and id of existing topics, and the error for the others.

The topic's id is stored with the offset, whatever the client sent: a topic that is created again under the same name
starts without offsets.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.metadata.image import TopicImage
from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import BrokerContext


def keep_known_topics(
    ctx: BrokerContext, request: OffsetCommitRequest, *, by_id: bool
) -> list[OffsetCommitResponseTopic]:
    """Removes partitions that cannot be committed from the request, and returns the answers for them."""
    unknown: list[OffsetCommitResponseTopic] = []
    request.topics = [known for topic in request.topics if (known := _known(ctx, topic, unknown, by_id)) is not None]
    return unknown


def _known(
    ctx: BrokerContext, topic: OffsetCommitRequestTopic, unknown: list[OffsetCommitResponseTopic], by_id: bool
) -> OffsetCommitRequestTopic | None:
    image, error = _find(ctx, topic, by_id)
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


def _find(ctx: BrokerContext, topic: OffsetCommitRequestTopic, by_id: bool) -> tuple[TopicImage | None, ErrorCode]:
    image = ctx.broker.image
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
