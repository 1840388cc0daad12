"""DeleteTopics 1-6: by name, from 6 also by id. 5 adds a message to each error.

Switched off by `delete.topic.enable`: TOPIC_DELETION_DISABLED, before 3 INVALID_REQUEST. A client that may not describe
a topic does not learn whether it exists: by name it gets TOPIC_AUTHORIZATION_FAILED, by id an answer without the name.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.topics import delete_topics
from odradek.protocol.messages.p20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, RequestContext


async def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    allowed, denied = _sorted(ctx, request)
    enabled = ctx.host.config.delete_topic_enable
    decided = await ctx.host.controller.submit(lambda image: delete_topics(image, allowed, enabled=enabled))
    return DeleteTopicsResponse(responses=denied + decided)


def refuse(ctx: RequestContext, request: DeleteTopicsRequest, refused: KafkaError) -> DeleteTopicsResponse:
    allowed, denied = _sorted(ctx, request)
    code, message = refused.code, refused.message or None
    if code is ErrorCode.TOPIC_DELETION_DISABLED and ctx.version < 3:
        code = ErrorCode.INVALID_REQUEST
    return DeleteTopicsResponse(
        responses=denied
        + [
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)
            for topic in allowed
        ]
    )


def _sorted(
    ctx: RequestContext, request: DeleteTopicsRequest
) -> tuple[list[DeleteTopicState], list[DeletableTopicResult]]:
    """What may be deleted, and the answers for the rest."""
    everything = ctx.authorize(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME)
    allowed: list[DeleteTopicState] = []
    denied: list[DeletableTopicResult] = []
    for topic in [DeleteTopicState(name=name) for name in request.topic_names] + request.topics:
        refusal = None if everything else _refusal(ctx, topic)
        if refusal is None:
            allowed.append(topic)
        else:
            denied.append(refusal)
    return allowed, denied


def _refusal(ctx: RequestContext, asked: DeleteTopicState) -> DeletableTopicResult | None:
    topic = ctx.host.image.topics_by_id.get(asked.topic_id) if asked.name is None else None
    name = asked.name if topic is None else topic.name
    if name is None:
        return None  # An unknown id, or neither id nor name: the controller says which.
    if ctx.authorize(Operation.DELETE, ResourceType.TOPIC, name):
        return None
    describable = ctx.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if describable and topic is None and name not in ctx.host.image.topics:
        return None
    return DeletableTopicResult(
        name=name if describable or topic is None else None,
        topic_id=asked.topic_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )


API = Api(key=20, versions=(1, 6), request=DeleteTopicsRequest, handle=handle, refuse=refuse)
