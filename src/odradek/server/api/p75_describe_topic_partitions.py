"""DescribeTopicPartitions 0: topics page by page, with eligible leader replicas (KIP-966).

Topics come in the order of their names, at most `response_partition_limit` partitions at a time, from the cursor on;
the answer's cursor is where the next page starts. A request without topics asks for all. A topic that the client may
not describe is reported after the page. A cursor at a topic that was not asked for is an error, and so is a negative
partition.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.base.errors import ErrorCode
from odradek.base.ids import NO_BROKER
from odradek.controller.topic_names import what_is_wrong_with
from odradek.metadata.image import ClusterImage, PartitionImage
from odradek.protocol.messages.p75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from odradek.security.authorizer import Operation, ResourceType, authorized_operations
from odradek.server.broker import Broker
from odradek.server.network.request import Api, BrokerContext
from odradek.server.visible_cluster import is_internal, live_broker_ids, offline_replicas


def handle(ctx: BrokerContext, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    asked = list(dict.fromkeys(topic.name for topic in request.topics))
    cursor = request.cursor
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        return _refused(asked)
    start = cursor.topic_name if cursor is not None else ""
    names = sorted(name for name in asked or ctx.broker.image.topics if name >= start)
    denied = dict.fromkeys(name for name in names if not ctx.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name))
    limit = max(1, min(request.response_partition_limit, ctx.broker.config.max_request_partition_size_limit))
    response = _page(ctx.broker, [name for name in names if name not in denied], cursor, limit)
    for topic in response.topics:
        topic.topic_authorized_operations = authorized_operations(ctx.authorize, ResourceType.TOPIC, topic.name or "")
    if asked:
        response.topics += [
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
            for name in denied
        ]
    return response


def _refused(asked: list[str]) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name) for name in asked]
    )


def _page(broker: Broker, names: list[str], cursor: Cursor | None, limit: int) -> DescribeTopicPartitionsResponse:
    image, live = broker.image, live_broker_ids(broker.image, broker.listener_name)
    response = DescribeTopicPartitionsResponse()
    remaining = limit
    for name in names:
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        topic = _topic(image, live, name, first, remaining)
        response.topics.append(topic)
        remaining -= len(topic.partitions)
        left_at = first + len(topic.partitions)
        if name in image.topics and left_at < len(image.topics[name].partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=left_at)
            break
    return response


def _topic(
    image: ClusterImage, live: Mapping[int, None], name: str, first: int, limit: int
) -> DescribeTopicPartitionsResponseTopic:
    topic = image.topics.get(name)
    if topic is None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION if what_is_wrong_with(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribeTopicPartitionsResponseTopic(error_code=error, name=name, is_internal=is_internal(name))
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=is_internal(name),
        partitions=[_partition(live, partition) for partition in topic.partitions[first : first + limit]],
    )


def _partition(live: Mapping[int, None], partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.index,
        leader_id=partition.leader if partition.leader in live else NO_BROKER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(live, partition),
    )


API = Api(key=75, versions=(0, 0), request=DescribeTopicPartitionsRequest, handle=handle)
