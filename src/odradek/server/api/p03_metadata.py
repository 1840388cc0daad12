"""Metadata 0-13: brokers, topics, leaders; creates unknown topics on the way.

0: an empty list asks for all topics, a partition with a dead replica gets REPLICA_NOT_AVAILABLE. 1: null asks for
all, empty for none. 2: cluster id. 4: the client may forbid creation (it is allowed before). 5: offline replicas. 6:
a leader without our listener is LISTENER_NOT_FOUND, LEADER_NOT_AVAILABLE before. 7: leader epochs. 8: authorized
operations; those of the cluster only up to 10. 10: topic ids in the answer; ids in the request are refused until 12.
13: error code on top.

A topic is created when the client and `auto.create.topics.enable` both allow it; the answer waits for it, so that the
first produce finds a leader. `controller_id` is the answering broker: every broker accepts requests for the controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER, ZERO_UUID
from odradek.controller.topic_names import what_is_wrong_with
from odradek.metadata.image import PartitionImage, TopicImage
from odradek.protocol.messages.p03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.messages.p19_create_topics import CreatableTopic
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType, authorized_operations
from odradek.server.network.request import Api, BrokerContext
from odradek.server.own_topics import create_by_itself
from odradek.server.visible_cluster import (
    acting_controller,
    is_internal,
    live_broker_ids,
    offline_replicas,
    visible_brokers,
)

FIRST_WITH_LISTENER_NOT_FOUND = 6


async def handle(ctx: BrokerContext, request: MetadataRequest) -> MetadataResponse:
    asked = request.topics
    if asked is None or (ctx.version == 0 and not asked):
        return _response(ctx, request, _all_topics(ctx))
    if ctx.version < 12 and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in asked):
        return _refused(asked)
    if any(topic.topic_id != ZERO_UUID for topic in asked):
        return _response(ctx, request, _by_id(ctx, asked))
    # Each topic once, in the order asked.
    names = list(dict.fromkeys(topic.name or "" for topic in asked))
    missing = _to_create(ctx, request, names)
    refusals = await _create(ctx, missing) if missing else {}
    topics = [_by_name(ctx, request, name) for name in names]
    for topic in topics:
        # Another client may have created it meanwhile: then the topic is returned, not the refusal.
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name in refusals:
            topic.error_code = refusals[topic.name]
    return _response(ctx, request, topics)


def _refused(asked: Sequence[MetadataRequestTopic]) -> MetadataResponse:
    return MetadataResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        topics=[
            MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)
            for topic in asked
        ],
    )


def _all_topics(ctx: BrokerContext) -> list[MetadataResponseTopic]:
    live = live_broker_ids(ctx.broker.image, ctx.broker.listener_name)
    return [
        _topic(ctx, topic, live)
        for topic in ctx.broker.image.topics.values()
        if ctx.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
    ]


def _by_id(ctx: BrokerContext, asked: Sequence[MetadataRequestTopic]) -> list[MetadataResponseTopic]:
    """Once one id is given, names in the same request are ignored, as Kafka does."""
    found: list[MetadataResponseTopic] = []
    for topic_id in dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_UUID):
        topic = ctx.broker.image.topics_by_id.get(topic_id)
        if topic is None:
            found.append(MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id))
        elif ctx.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            found.append(_topic(ctx, topic))
        else:
            found.append(
                MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
            )
    return found


def _by_name(ctx: BrokerContext, request: MetadataRequest, name: str) -> MetadataResponseTopic:
    # Only a client that may describe a topic learns whether it exists.
    if not ctx.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = ctx.broker.image.topics.get(name)
    if topic is not None:
        return _topic(ctx, topic)
    if _creation_allowed(ctx, request) and not _may_create(ctx, name):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION if what_is_wrong_with(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return MetadataResponseTopic(error_code=error, name=name, is_internal=is_internal(name))


def _creation_allowed(ctx: BrokerContext, request: MetadataRequest) -> bool:
    return request.allow_auto_topic_creation and ctx.broker.config.auto_create_topics_enable


def _may_create(ctx: BrokerContext, name: str) -> bool:
    return ctx.authorize(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME) or ctx.authorize(
        Operation.CREATE, ResourceType.TOPIC, name
    )


def _to_create(ctx: BrokerContext, request: MetadataRequest, names: Sequence[str]) -> list[str]:
    if not _creation_allowed(ctx, request):
        return []
    return [
        name
        for name in names
        if name not in ctx.broker.image.topics
        and not is_internal(name)
        and not what_is_wrong_with(name)
        and ctx.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)
        and _may_create(ctx, name)
    ]


async def _create(ctx: BrokerContext, names: Sequence[str]) -> dict[str, int]:
    """Returns when the topics exist. The result has an error for each topic that could not be created."""
    config = ctx.broker.config
    wanted = [
        CreatableTopic(
            name=name, num_partitions=config.num_partitions, replication_factor=config.default_replication_factor
        )
        for name in names
    ]
    try:
        results = await create_by_itself(ctx.broker, wanted)
    except KafkaError as refused:
        return dict.fromkeys(names, int(refused.code))
    return {result.name: result.error_code for result in results if result.error_code}


def _response(ctx: BrokerContext, request: MetadataRequest, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    broker = ctx.broker
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=peer.broker_id, host=peer.host, port=peer.port, rack=peer.rack)
            for peer in visible_brokers(broker.image, broker.listener_name)
        ],
        cluster_id=broker.cluster_id,
        controller_id=acting_controller(broker.image, broker.listener_name, broker.node_id, broker.rng),
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        may_see = ctx.authorize(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        response.cluster_authorized_operations = (
            authorized_operations(ctx.authorize, ResourceType.CLUSTER, CLUSTER_NAME) if may_see else 0
        )
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                topic.topic_authorized_operations = authorized_operations(ctx.authorize, ResourceType.TOPIC, topic.name)
    return response


def _topic(ctx: BrokerContext, topic: TopicImage, live: Mapping[int, None] | None = None) -> MetadataResponseTopic:
    image = ctx.broker.image
    live = live_broker_ids(image, ctx.broker.listener_name) if live is None else live
    partition_of = _oldest_partition if ctx.version == 0 else _partition
    partitions = [partition_of(live, partition) for partition in topic.partitions]
    if ctx.version >= FIRST_WITH_LISTENER_NOT_FOUND:
        for answer, partition in zip(partitions, topic.partitions, strict=True):
            if answer.leader_id == NO_BROKER and partition.leader in image.brokers:
                answer.error_code = ErrorCode.LISTENER_NOT_FOUND
    return MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=is_internal(topic.name), partitions=partitions
    )


def _partition(live: Mapping[int, None], partition: PartitionImage) -> MetadataResponsePartition:
    led = partition.leader in live
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader if led else NO_BROKER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=[*partition.replicas],
        isr_nodes=[*partition.isr],
        offline_replicas=offline_replicas(live, partition),
    )


def _oldest_partition(live: Mapping[int, None], partition: PartitionImage) -> MetadataResponsePartition:
    answer = _partition(live, partition)
    answer.replica_nodes = [broker_id for broker_id in partition.replicas if broker_id in live]
    answer.isr_nodes = [broker_id for broker_id in partition.isr if broker_id in live]
    whole = len(answer.replica_nodes) == len(partition.replicas) and len(answer.isr_nodes) == len(partition.isr)
    if not whole and answer.error_code == ErrorCode.NONE:
        answer.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    return answer


API = Api(key=3, versions=(0, 13), request=MetadataRequest, handle=handle)
