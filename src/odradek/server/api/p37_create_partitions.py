"""CreatePartitions 0-3: let a topic grow to `count` partitions; one answer for each topic named. 2 is flexible."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.partitions import create_partitions
from odradek.protocol.messages.p37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, RequestContext


async def handle(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    host = ctx.host
    denied = _denied(ctx, request)
    allowed = [topic for topic in request.topics if topic.name not in denied]
    results = await host.controller.submit(
        lambda image: create_partitions(image, allowed, rng=host.rng, validate_only=request.validate_only)
    )
    return CreatePartitionsResponse(results=results + list(denied.values()))


def refuse(ctx: RequestContext, request: CreatePartitionsRequest, refused: KafkaError) -> CreatePartitionsResponse:
    denied = _denied(ctx, request)
    names = dict.fromkeys(topic.name for topic in request.topics if topic.name not in denied)
    results = [
        CreatePartitionsTopicResult(name=name, error_code=refused.code, error_message=refused.message or None)
        for name in names
    ]
    return CreatePartitionsResponse(results=results + list(denied.values()))


def _denied(ctx: RequestContext, request: CreatePartitionsRequest) -> dict[str, CreatePartitionsTopicResult]:
    return {
        name: CreatePartitionsTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for name in dict.fromkeys(topic.name for topic in request.topics)
        if not ctx.authorize(Operation.ALTER, ResourceType.TOPIC, name)
    }


API = Api(key=37, versions=(0, 3), request=CreatePartitionsRequest, handle=handle, refuse=refuse)
