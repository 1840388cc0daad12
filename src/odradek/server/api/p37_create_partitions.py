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
    broker = ctx.broker
    names = list(dict.fromkeys(topic.name for topic in request.topics))
    denied = dict.fromkeys(name for name in names if not ctx.authorize(Operation.ALTER, ResourceType.TOPIC, name))
    allowed = [topic for topic in request.topics if topic.name not in denied]
    try:
        results = await broker.controller.submit(
            lambda image: create_partitions(image, allowed, rng=broker.rng, validate_only=request.validate_only)
        )
    except KafkaError as refused:
        results = [
            CreatePartitionsTopicResult(name=name, error_code=refused.code, error_message=refused.message or None)
            for name in names
            if name not in denied
        ]
    return CreatePartitionsResponse(
        results=results
        + [CreatePartitionsTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in denied]
    )


API = Api(key=37, versions=(0, 3), request=CreatePartitionsRequest, handle=handle)
