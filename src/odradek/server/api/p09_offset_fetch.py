"""OffsetFetch 1-10: how far groups have read.

2: null asks for all topics, and errors of the group have their own field; up to 7 every partition carries them, too.
7: the client may ask for offsets that nothing pending can change: where a transaction is open, it gets
UNSTABLE_OFFSET_COMMIT and retries. 8: several groups at once. 9: member and epoch, which classic groups ignore.
10: topics by id.

An offset that was never committed is -1 with empty metadata and no error, in an unknown group too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.coordinator.group.changes import CommittedOffset, PartitionKey
from odradek.coordinator.group.shard import GroupShard
from odradek.protocol.messages.p09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext

GROUP_ERROR = 2
SEVERAL_GROUPS = 8
BY_TOPIC_ID = 10
NO_OFFSET = -1


async def handle(ctx: BrokerContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    groups = [await _group(ctx, asked, request.require_stable) for asked in _asked(ctx, request)]
    if ctx.version >= SEVERAL_GROUPS:
        return OffsetFetchResponse(groups=groups)
    return _single(groups[0])


def _asked(ctx: BrokerContext, request: OffsetFetchRequest) -> list[OffsetFetchRequestGroup]:
    if ctx.version >= SEVERAL_GROUPS:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


async def _group(ctx: BrokerContext, asked: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    if not ctx.authorize(Operation.DESCRIBE, ResourceType.GROUP, asked.group_id):
        return _refused(ctx, asked, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        shard = await _shard(ctx, asked.group_id, require_stable)
    except KafkaError as refusal:
        return _refused(ctx, asked, refusal.code)
    unstable = shard.pending_offsets(asked.group_id) if require_stable else ()
    if asked.topics is None:
        topics = _all_topics(ctx, shard, asked.group_id, unstable)
    else:
        topics = _topics(ctx, shard, asked, unstable)
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


async def _shard(ctx: BrokerContext, group_id: str, require_stable: bool) -> GroupShard:
    if not require_stable:
        return ctx.broker.groups.shard(group_id)
    return await ctx.broker.groups.stable_shard(group_id)


@dataclass(frozen=True, slots=True)
class _Topic:
    name: str
    topic_id: bytes
    error: ErrorCode


def _find(ctx: BrokerContext, topic: OffsetFetchRequestTopics) -> _Topic:
    name = topic.name
    if ctx.version >= BY_TOPIC_ID:
        found = ctx.broker.image.topics_by_id.get(topic.topic_id)
        if found is None:
            return _Topic(name, topic.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        name = found.name
    allowed = ctx.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)
    return _Topic(name, topic.topic_id, ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _topics(
    ctx: BrokerContext, shard: GroupShard, asked: OffsetFetchRequestGroup, unstable: Collection[PartitionKey]
) -> list[OffsetFetchResponseTopics]:
    committed = shard.committed_offsets(asked.group_id)
    answers = []
    for wanted in asked.topics or ():
        topic = _find(ctx, wanted)
        answers.append(
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _missing(index, error)
                    if (error := topic.error or _instability(PartitionKey(topic.name, index), unstable))
                    else _partition(index, committed.get(PartitionKey(topic.name, index)), topic.topic_id)
                    for index in wanted.partition_indexes
                ],
            )
        )
    return answers


def _instability(partition: PartitionKey, unstable: Collection[PartitionKey]) -> ErrorCode:
    return ErrorCode.UNSTABLE_OFFSET_COMMIT if partition in unstable else ErrorCode.NONE


def _all_topics(
    ctx: BrokerContext, shard: GroupShard, group_id: str, unstable: Collection[PartitionKey]
) -> list[OffsetFetchResponseTopics]:
    by_topic: dict[str, OffsetFetchResponseTopics] = {}
    image = ctx.broker.image
    for key, committed in shard.committed_offsets(group_id).items():
        existing = image.topics.get(key.topic)
        topic_id = ZERO_UUID if existing is None else existing.topic_id
        # From version 10 on topics are named by id: leave out topics without one, and offsets of a deleted namesake.
        if ctx.version >= BY_TOPIC_ID and (topic_id == ZERO_UUID or _is_of_another(committed, topic_id)):
            continue
        if key.topic not in by_topic:
            by_topic[key.topic] = OffsetFetchResponseTopics(name=key.topic, topic_id=topic_id)
        error = _instability(key, unstable)
        found = _missing(key.partition, error) if error else _partition(key.partition, committed, ZERO_UUID)
        by_topic[key.topic].partitions.append(found)
    return [topic for name, topic in by_topic.items() if ctx.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)]


def _is_of_another(committed: CommittedOffset, topic_id: bytes) -> bool:
    return ZERO_UUID not in (topic_id, committed.topic_id) and topic_id != committed.topic_id


def _partition(index: int, committed: CommittedOffset | None, topic_id: bytes) -> OffsetFetchResponsePartitions:
    if committed is None or _is_of_another(committed, topic_id):
        return _missing(index, ErrorCode.NONE)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _missing(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=error)


def _refused(ctx: BrokerContext, asked: OffsetFetchRequestGroup, error: ErrorCode) -> OffsetFetchResponseGroup:
    if ctx.version >= SEVERAL_GROUPS:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error)
    # Kafka leaves the partitions out from version 2 on. aiokafka looks only at partitions: without them it takes every
    # offset for uncommitted while a coordinator loads, and reads its input from the beginning.
    topics = [
        OffsetFetchResponseTopics(name=topic.name, partitions=[_missing(i, error) for i in topic.partition_indexes])
        for topic in asked.topics or ()
    ]
    group_error = error if ctx.version >= GROUP_ERROR else ErrorCode.NONE
    return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=group_error, topics=topics)


def _single(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


API = Api(key=9, versions=(1, 10), request=OffsetFetchRequest, handle=handle)
