"""ListOffsets 1-11: the offset at a time, or at one of the ends.

-1 latest, -2 earliest; from 7 -3, the record with the largest timestamp; from 8 -4, the earliest on local disk, which
is the earliest; from 9 -5 and from 11 -6, which are about tiered storage and are answered with "none", as Kafka does
without it. Any other: the first record at or after that time. "None" is offset -1 without an error.

2: isolation level, so that latest may be the last stable offset. 4: leader epochs, both ways. 5: a leader whose high
watermark has not reached its epoch's start answers OFFSET_NOT_AVAILABLE, LEADER_NOT_AVAILABLE before. 10: a timeout,
which only tiered storage needs. A replica (replica id 0 and up) sees up to the log's end; -2 may ask a follower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.protocol.messages.p02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.replication.isolation import FetchIsolation, isolation_of_consumer
from odradek.replication.partition import Partition
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.led_partition import led_partition, local_partition
from odradek.server.network.request import Api, BrokerContext

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
FIRST_VERSION_WITH = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

CONSUMER, DEBUGGER = -1, -2


class Found(NamedTuple):
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


NOTHING = Found()
# The results of searches by timestamp, for the partitions that needed one.
Searched = Mapping[TopicPartition, Found | KafkaError]


async def handle(ctx: BrokerContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """The response is built after the searches, so that it shows the leader of that time."""
    times = Counter(TopicPartition(t.name, p.partition_index) for t in request.topics for p in t.partitions)
    searched: dict[TopicPartition, Found | KafkaError] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            name = TopicPartition(topic.name, asked.partition_index)
            if _needs_search(asked) and times[name] == 1:
                searched[name] = await _search(ctx, request, topic.name, asked)
    return _response(ctx, request, times, searched)


def _needs_search(partition: ListOffsetsPartition) -> bool:
    return partition.timestamp >= 0 or partition.timestamp == MAX_TIMESTAMP


async def _search(
    ctx: BrokerContext, request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition
) -> Found | KafkaError:
    """Reads the disk and may decompress a batch."""
    blocking = ctx.broker.spawner.blocking
    try:
        partition = _partition(ctx, request, topic, asked)
        end_offset = _end_offset(partition, request)
        if asked.timestamp == MAX_TIMESTAMP:
            found = await blocking(partition.log.max_timestamp_offset)
        else:
            found = await blocking(partition.log.offset_for_timestamp, asked.timestamp, end_offset)
    except KafkaError as refused:
        return refused
    except OSError as broken:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"searching {partition}: {broken}")
    if found is None or found.offset >= end_offset:
        return NOTHING
    return Found(found.offset, found.timestamp, found.leader_epoch)


def _response(
    ctx: BrokerContext, request: ListOffsetsRequest, times: Mapping[TopicPartition, int], searched: Searched
) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(ctx, request, topic.name, partition, times, searched)
                    for partition in _distinct(topic.partitions)
                ],
            )
            for topic in request.topics
        ]
    )


def _distinct(partitions: list[ListOffsetsPartition]) -> Iterator[ListOffsetsPartition]:
    yield from {partition.partition_index: partition for partition in partitions}.values()


def _answer(
    ctx: BrokerContext,
    request: ListOffsetsRequest,
    topic: str,
    asked: ListOffsetsPartition,
    times: Mapping[TopicPartition, int],
    searched: Searched,
) -> ListOffsetsPartitionResponse:
    name = TopicPartition(topic, asked.partition_index)
    if times[name] > 1:
        return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=ErrorCode.INVALID_REQUEST)
    try:
        found = _find(_partition(ctx, request, topic, asked), request, asked.timestamp, name, searched)
    except KafkaError as refused:
        code = refused.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and ctx.version < 5:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _partition(ctx: BrokerContext, request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition) -> Partition:
    if not ctx.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if asked.timestamp < 0 and ctx.version < FIRST_VERSION_WITH.get(asked.timestamp, ctx.version + 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if request.replica_id == DEBUGGER:
        return local_partition(ctx.broker, topic, asked.partition_index)
    return led_partition(ctx.broker, topic, asked.partition_index, asked.current_leader_epoch)


def _find(
    partition: Partition, request: ListOffsetsRequest, timestamp: int, name: TopicPartition, searched: Searched
) -> Found:
    log = partition.log
    if timestamp == LATEST:
        _check_caught_up(partition, request)
        return Found(_end_offset(partition, request), leader_epoch=partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Found(log.log_start_offset, leader_epoch=log.leader_epochs.epoch_at(log.log_start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    found = searched[name]
    if isinstance(found, KafkaError):
        raise found
    if found is NOTHING:
        _check_caught_up(partition, request)
    return found


def _end_offset(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id != CONSUMER:
        return partition.visible_end(FetchIsolation.LOG_END)
    return partition.visible_end(isolation_of_consumer(request.isolation_level))


def _check_caught_up(partition: Partition, request: ListOffsetsRequest) -> None:
    """A new leader does not know yet whether records above its high watermark will stay."""
    epochs = partition.log.leader_epochs
    began = epochs.starts[-1] if epochs.latest == partition.leader_epoch else partition.log.log_end_offset
    if request.replica_id == CONSUMER and partition.high_watermark < began:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)


API = Api(key=2, versions=(1, 11), request=ListOffsetsRequest, handle=handle)
