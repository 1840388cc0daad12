"""What the configuration APIs (32, 33, 44) ask before they look at a resource."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.request import RequestContext


def check_resource(ctx: RequestContext, operation: Operation, resource_type: int, name: str) -> None:
    """Permission first. A broker resource is this broker, or nameless: every broker."""
    if resource_type == TOPIC_RESOURCE:
        if not ctx.authorize(operation, ResourceType.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    elif resource_type == BROKER_RESOURCE:
        if not ctx.authorize(operation, ResourceType.CLUSTER, CLUSTER_NAME):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if name not in ("", str(ctx.broker.node_id)):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {ctx.broker.node_id}, but received {name}"
            )
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource_type}")
