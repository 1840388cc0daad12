"""What the configuration APIs (32, 33, 44) check before they read a resource, and how two of them change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.configs import Outcome
from odradek.controller.decision import Decision
from odradek.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    LOGGER_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
    ConfigResource,
)
from odradek.protocol.messages import p33_alter_configs, p44_incremental_alter_configs
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import ControllerContext, RequestContext

R = TypeVar("R", p33_alter_configs.AlterConfigsResource, p44_incremental_alter_configs.AlterConfigsResource)


def check_resource(ctx: RequestContext, operation: Operation, resource_type: int, name: str) -> None:
    """Permission first. A broker resource is this broker, or nameless: every broker. Loggers are those of this node.

    A request at the controller was checked by the broker that forwarded it, and may name any broker.
    """
    if resource_type == TOPIC_RESOURCE:
        if not ctx.authorize(operation, ResourceType.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return
    if resource_type not in (BROKER_RESOURCE, LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource_type}")
    if not ctx.authorize(operation, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    here = str(ctx.host.node_id)
    if resource_type == BROKER_RESOURCE:
        if not isinstance(ctx, ControllerContext) and name not in ("", here):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {here}, but received {name}")
    elif resource_type == LOGGER_RESOURCE and name != here:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected node id. Expected {here}, but received {name}" if name else "Broker id must not be empty",
        )


async def alter(
    ctx: RequestContext, wanted: Sequence[R], decide: Callable[[ClusterImage, Sequence[R]], Decision[list[Outcome]]]
) -> list[Outcome]:
    """Changes all allowed resources in one decision. The outcomes of refused resources come first."""
    allowed, outcomes = _sorted(ctx, wanted)
    return outcomes + await ctx.host.controller.submit(lambda image: decide(image, allowed))


def refuse_alter(ctx: RequestContext, wanted: Sequence[R], refused: KafkaError) -> list[Outcome]:
    allowed, outcomes = _sorted(ctx, wanted)
    return outcomes + [refused_outcome(resource, refused) for resource in allowed]


def _sorted(ctx: RequestContext, wanted: Sequence[R]) -> tuple[list[R], list[Outcome]]:
    allowed: list[R] = []
    outcomes: list[Outcome] = []
    for resource in wanted:
        try:
            check_resource(ctx, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
            allowed.append(resource)
        except KafkaError as refused:
            outcomes.append(refused_outcome(resource, refused))
    return allowed, outcomes


def refused_outcome(
    wanted: p33_alter_configs.AlterConfigsResource | p44_incremental_alter_configs.AlterConfigsResource,
    refused: KafkaError,
) -> Outcome:
    return Outcome(ConfigResource(wanted.resource_type, wanted.resource_name), refused.code, refused.message or None)
