"""DescribeProducers 0: which idempotent producers a replica here remembers, and how far each has come."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.topic_names import check_topic_name
from odradek.log.producer import Producer
from odradek.protocol.messages.p61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.led_partition import local_partition
from odradek.server.network.request import Api, BrokerContext


def handle(ctx: BrokerContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_partition(ctx, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _partition(ctx: BrokerContext, topic: str, index: int) -> PartitionResponse:
    try:
        producers = _producers(ctx, topic, index)
    except KafkaError as refused:
        return PartitionResponse(partition_index=index, error_code=refused.code, error_message=refused.message or None)
    return PartitionResponse(partition_index=index, active_producers=producers)


def _producers(ctx: BrokerContext, topic: str, index: int) -> list[ProducerState]:
    if not ctx.authorize(Operation.READ, ResourceType.TOPIC, topic):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    check_topic_name(topic)
    known = local_partition(ctx.broker, topic, index).log.known_producers(ctx.broker.clock.wall_ms())
    return [_state(producer_id, producer) for producer_id, producer in known.by_id.items()]


def _state(producer_id: int, producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.batches[-1].last_sequence if producer.batches else -1,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_start,
    )


API = Api(key=61, versions=(0, 0), request=DescribeProducersRequest, handle=handle)
