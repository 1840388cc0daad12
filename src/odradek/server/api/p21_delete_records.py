"""DeleteRecords 0-2: raise a partition's log start offset. 2 is flexible.

-1 stands for the high watermark, above which nothing can be deleted. The new start may lie inside a batch. Internal
topics and topics that are only compacted are refused.
"""

from __future__ import annotations

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
from odradek.server.request import Api, RequestContext
from odradek.server.visible_cluster import is_internal

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


def handle(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(ctx, topic.name, partition) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(ctx: RequestContext, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        low_watermark = _advance(ctx, topic, asked)
    except KafkaError as refused:
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=refused.code
        )
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=low_watermark)


def _advance(ctx: RequestContext, topic: str, asked: DeleteRecordsPartition) -> int:
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
    return log.log_start_offset


API = Api(key=21, versions=(0, 2), request=DeleteRecordsRequest, handle=handle)
