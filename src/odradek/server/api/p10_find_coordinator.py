"""FindCoordinator 0-6: which broker coordinates a group or a transactional id.

0: groups only. 1: the kind of key. 4: several keys at once. 6: keys of share groups, which do not exist here.

The first request for a kind creates its internal topic and waits for it; COORDINATOR_NOT_AVAILABLE when that cannot be
done now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from odradek.base.errors import ErrorCode
from odradek.base.ids import NO_BROKER
from odradek.coordinator.runtime import Runtime
from odradek.protocol.messages.p10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.broker import Broker
from odradek.server.internal_topics import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    create_offsets_topic,
    create_transactions_topic,
    leader_for,
)
from odradek.server.network.request import Api, BrokerContext
from odradek.server.visible_cluster import visible_brokers

SEVERAL_KEYS = 4


class Kind(NamedTuple):
    topic: str
    runtime: Callable[[Broker], Runtime[Any]]
    create_topic: Callable[[Broker], Awaitable[None]]
    resource: ResourceType
    not_allowed: ErrorCode


KINDS: Mapping[int, Kind] = {
    0: Kind(
        OFFSETS_TOPIC,
        lambda broker: broker.groups,
        create_offsets_topic,
        ResourceType.GROUP,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ),
    1: Kind(
        TRANSACTIONS_TOPIC,
        lambda broker: broker.transactions,
        create_transactions_topic,
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


def handle(
    ctx: BrokerContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    kind = KINDS.get(request.key_type)
    if kind is not None and kind.topic not in ctx.broker.image.topics:
        return _create_topic_and_answer(ctx, request, kind)
    return _answer(ctx, request)


async def _create_topic_and_answer(
    ctx: BrokerContext, request: FindCoordinatorRequest, kind: Kind
) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if ctx.version >= SEVERAL_KEYS else [request.key]
    if any(ctx.authorize(Operation.DESCRIBE, kind.resource, key) for key in keys):
        await kind.create_topic(ctx.broker)
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
    kind = KINDS.get(key_type)
    if kind is None:
        return _refused(key, ErrorCode.INVALID_REQUEST, f"Key type {key_type} is not served.")
    if not ctx.authorize(Operation.DESCRIBE, kind.resource, key):
        return _refused(key, kind.not_allowed, "")
    leader = leader_for(ctx.broker, kind.runtime(ctx.broker), key)
    for broker in visible_brokers(ctx.broker.image, ctx.broker.listener_name):
        if broker.broker_id == leader:
            return Coordinator(key=key, node_id=leader, host=broker.host, port=broker.port, error_message=None)
    return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")


def _refused(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=NO_BROKER, port=-1, error_code=error, error_message=message or error.name)


API = Api(key=10, versions=(0, 6), request=FindCoordinatorRequest, handle=handle)
