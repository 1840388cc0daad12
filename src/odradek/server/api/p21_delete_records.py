"""DeleteRecords 0-2: raise a partition's log start offset. 2 is flexible.

Answered when all live replicas have done so: otherwise the next leader could have a lower log start offset. Unlike
Kafka, it also waits for offline replicas that are eligible leaders (ELR): below min.insync.replicas the request waits
until they are back, or times out.

-1 stands for the high watermark, above which nothing can be deleted. The new start may lie inside a batch. Internal
topics and topics that are only compacted are refused.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.led_partition import led_partition
from odradek.server.network.request import Api, BrokerContext
from odradek.server.outcome import outcome
from odradek.server.visible_cluster import is_internal

if TYPE_CHECKING:
    from odradek.replication.partition import Partition

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


async def handle(ctx: BrokerContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    waiting: list[tuple[int, DeleteRecordsPartitionResult, asyncio.Future[ErrorCode]]] = []
    for topic in request.topics:
        results: list[DeleteRecordsPartitionResult] = []
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
        for asked in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=asked.partition_index)
            results.append(result)
            try:
                partition, offset = _delete(ctx, topic.name, asked)
            except KafkaError as refused:
                result.error_code, result.low_watermark = refused.code, NO_LOW_WATERMARK
            else:
                waiting.append((offset, result, outcome(partition, partition.when_trimmed, offset)))
    ctx.broker.tally.parked_deletions += 1
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(request.timeout_ms / 1000):
                for _, _, trimmed in waiting:
                    await trimmed
    finally:
        ctx.broker.tally.parked_deletions -= 1
    for offset, result, trimmed in waiting:
        trimmed.cancel()
        code = ErrorCode.REQUEST_TIMED_OUT if trimmed.cancelled() else trimmed.result()
        result.error_code = code
        # Not the replicas' current log start offsets: a replica that has just come back may still have to delete.
        result.low_watermark = offset if code is ErrorCode.NONE else NO_LOW_WATERMARK
    return response


def _delete(ctx: BrokerContext, topic: str, asked: DeleteRecordsPartition) -> tuple[Partition, int]:
    """Deletes on this replica; followers get the new log start offset with their next fetch."""
    if not ctx.authorize(Operation.DELETE, ResourceType.TOPIC, topic):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic in ctx.broker.image.topics and is_internal(topic):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = led_partition(ctx.broker, topic, asked.partition_index)
    log = partition.log
    if log.config.compacts and not log.config.deletes:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    offset = partition.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if offset > log.log_start_offset:
        log.advance_log_start(offset)
    return partition, log.log_start_offset


API = Api(key=21, versions=(0, 2), request=DeleteRecordsRequest, handle=handle)
