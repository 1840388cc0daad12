"""FindCoordinator 0-6: which broker coordinates a group.

0: groups only. 1: the kind of key. 4: several keys at once. 6: keys of share groups, which do not exist here.

The first request creates `__consumer_offsets` and waits for it; COORDINATOR_NOT_AVAILABLE when that cannot be done now.
Transactions do not exist yet: their keys are refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as InitProducerId
does, because clients would retry any other code until they time out.
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER
from odradek.protocol.messages.p10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.p19_create_topics import CreatableTopic, CreatableTopicConfig
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.broker import Broker
from odradek.server.internal_topics import OFFSETS_TOPIC
from odradek.server.network.request import Api, BrokerContext
from odradek.server.own_topics import create_by_itself
from odradek.server.visible_cluster import visible_brokers

SEVERAL_KEYS = 4
GROUP_KEY, TRANSACTION_KEY = 0, 1


def handle(
    ctx: BrokerContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    if request.key_type == GROUP_KEY and OFFSETS_TOPIC not in ctx.broker.image.topics:
        return _create_topic_and_answer(ctx, request)
    return _answer(ctx, request)


async def _create_topic_and_answer(ctx: BrokerContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if ctx.version >= SEVERAL_KEYS else [request.key]
    if any(ctx.authorize(Operation.DESCRIBE, ResourceType.GROUP, key) for key in keys):
        await _create_offsets_topic(ctx.broker)
    return _answer(ctx, request)


def _answer(ctx: BrokerContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if ctx.version >= SEVERAL_KEYS:
        return FindCoordinatorResponse(
            coordinators=[_find(ctx, request.key_type, key) for key in request.coordinator_keys]
        )
    found = _find(ctx, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(ctx: BrokerContext, key_type: int, key: str) -> Coordinator:
    if key_type == TRANSACTION_KEY:
        ctx.authorize(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key)
        return _refused(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "This broker has no transactions yet.")
    if key_type != GROUP_KEY:
        return _refused(key, ErrorCode.INVALID_REQUEST, f"Key type {key_type} is not served.")
    if not ctx.authorize(Operation.DESCRIBE, ResourceType.GROUP, key):
        return _refused(key, ErrorCode.GROUP_AUTHORIZATION_FAILED, "")
    image = ctx.broker.image
    topic = image.topics.get(OFFSETS_TOPIC)
    if topic is not None:
        leader = topic.partitions[ctx.broker.groups.partition_for(key)].leader
        for broker in visible_brokers(image, ctx.broker.listener_name):
            if broker.broker_id == leader:
                return Coordinator(key=key, node_id=leader, host=broker.host, port=broker.port, error_message=None)
    return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")


def _refused(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=NO_BROKER, port=-1, error_code=error, error_message=message or error.name)


async def _create_offsets_topic(broker: Broker) -> None:
    try:
        await create_by_itself(broker, [_offsets_topic(broker)])
    except KafkaError:
        # No controller, or no broker to place it on: clients get a retriable error.
        return


def _offsets_topic(broker: Broker) -> CreatableTopic:
    config = broker.config
    # Brokers that are down count, too: they get a replica when they are back.
    registered = len(broker.image.brokers)
    return CreatableTopic(
        name=OFFSETS_TOPIC,
        num_partitions=config.offsets_topic_num_partitions,
        # The first node of a cluster always has fewer brokers than the replicas wanted.
        replication_factor=max(min(config.offsets_topic_replication_factor, registered), 1),
        configs=[
            CreatableTopicConfig(name="cleanup.policy", value="compact"),
            CreatableTopicConfig(name="compression.type", value="producer"),
            CreatableTopicConfig(name="segment.bytes", value=str(config.offsets_topic_segment_bytes)),
        ],
    )


API = Api(key=10, versions=(0, 6), request=FindCoordinatorRequest, handle=handle)
