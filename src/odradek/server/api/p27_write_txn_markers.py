"""WriteTxnMarkers 1-2: coordinators end transactions in partitions that this broker leads. 2: the transaction version.

Markers for `__consumer_offsets` go through the group coordinator, which then counts or drops the offsets.
"""

from __future__ import annotations

import asyncio
import logging

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.txn_marker import TxnMarker
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.internal_topics import OFFSETS_TOPIC
from odradek.server.led_partition import led_partition
from odradek.server.network.request import Api, BrokerContext
from odradek.server.outcome import outcome

logger = logging.getLogger(__name__)

_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


async def handle(ctx: BrokerContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    allowed = ctx.authorize(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME) or ctx.authorize(
        Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    )
    return WriteTxnMarkersResponse(
        markers=list(await asyncio.gather(*(_end(ctx, marker, allowed) for marker in request.markers)))
    )


async def _end(ctx: BrokerContext, asked: WritableTxnMarker, allowed: bool) -> WritableTxnMarkerResult:
    marker = TxnMarker(
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        coordinator_epoch=asked.coordinator_epoch,
        committed=asked.transaction_result,
        transaction_version=asked.transaction_version,
    )
    places = [(topic.name, index) for topic in asked.topics for index in topic.partition_indexes]
    if allowed:
        codes = dict(zip(places, await asyncio.gather(*(_write(ctx, marker, *at) for at in places)), strict=True))
    else:
        codes = dict.fromkeys(places, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=codes[topic.name, index])
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )


async def _write(ctx: BrokerContext, marker: TxnMarker, topic: str, index: int) -> ErrorCode:
    try:
        if topic == OFFSETS_TOPIC:
            await ctx.broker.groups.answered_at(index, lambda shard, to, now: shard.end_transaction(marker, to, now))
            return ErrorCode.NONE
        partition = led_partition(ctx.broker, topic, index)
        appended = partition.append_marker(marker, ctx.broker.clock.wall_ms())
        return await outcome(partition, partition.when_committed, appended.last_offset)
    except KafkaError as refusal:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if refusal.code in _NOT_READY else refusal.code
    except OSError as broken:  # raised before the log wrote anything
        logger.warning("no marker for producer %d in %s-%d: %s", marker.producer_id, topic, index, broken)
        return ErrorCode.KAFKA_STORAGE_ERROR


API = Api(key=27, versions=(1, 2), request=WriteTxnMarkersRequest, handle=handle)
