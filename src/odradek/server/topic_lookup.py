"""From the name or id a client sent to the partitions this broker has, or to the error for the client."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.replication.partition_table import HostedTopic
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import BrokerContext

TOPIC = ResourceType.TOPIC


def find_topic(ctx: BrokerContext, topic: str | bytes, operation: Operation) -> HostedTopic | KafkaError:
    """The topic with its partitions on this broker, if the client may do `operation` on it."""
    table = ctx.broker.partitions
    hosted = table.topics.get(topic) if isinstance(topic, str) else table.topics_by_id.get(topic)
    if hosted is None:
        return _not_here(ctx, topic, operation)
    if not ctx.authorize(operation, TOPIC, hosted.name):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return hosted


def find_topic_for_replica(ctx: BrokerContext, topic: str | bytes) -> HostedTopic | KafkaError:
    """For a broker, which needs CLUSTER_ACTION alone."""
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    table, image = ctx.broker.partitions, ctx.broker.image
    by_name = isinstance(topic, str)
    hosted = table.topics.get(topic) if isinstance(topic, str) else table.topics_by_id.get(topic)
    if hosted is not None:
        return hosted
    known = image.topics.get(topic) if isinstance(topic, str) else image.topics_by_id.get(topic)
    if known is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID)
    return HostedTopic(known.name, known.topic_id)


def missing_partition(ctx: BrokerContext, hosted: HostedTopic, index: int) -> ErrorCode:
    """Why this broker has no such partition: its log failed, it is on other brokers, or it does not exist."""
    image = ctx.broker.image.topics_by_id.get(hosted.topic_id)
    if image is not None and 0 <= index < len(image.partitions):
        here = ctx.broker.node_id in image.partitions[index].replicas
        return ErrorCode.KAFKA_STORAGE_ERROR if here else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _not_here(ctx: BrokerContext, topic: str | bytes, operation: Operation) -> HostedTopic | KafkaError:
    image = ctx.broker.image
    known = image.topics.get(topic) if isinstance(topic, str) else image.topics_by_id.get(topic)
    if known is None:
        if isinstance(topic, bytes):
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not ctx.authorize(operation, TOPIC, topic):
            return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not ctx.authorize(operation, TOPIC, known.name):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return HostedTopic(known.name, known.topic_id)
