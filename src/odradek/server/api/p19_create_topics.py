"""CreateTopics 2-7: -1 partitions or replicas stand for the broker's defaults; `validate_only` decides without doing.

5: the answer has the topic's partitions, replicas and configuration, if the client may describe it. 6: no difference
to us, as creations are not throttled. 7: topic ids. Each name is answered once; a name given twice is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.topic_names import CLUSTER_METADATA_TOPIC
from odradek.controller.topics import TopicDefaults, create_topics
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.configs.in_force import describe_new_topic
from odradek.protocol.messages.p19_create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, RequestContext


def topic_defaults(config: BrokerConfig) -> TopicDefaults:
    return TopicDefaults(partitions=config.num_partitions, replication_factor=config.default_replication_factor)


async def handle(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    host = ctx.host
    allowed = _allowed(ctx, request.topics)
    results = await host.controller.submit(
        lambda image: create_topics(
            image,
            allowed,
            defaults=topic_defaults(host.config),
            rng=host.rng,
            validate_only=request.validate_only,
        )
    )
    wanted = {topic.name: topic for topic in allowed}
    for result in results:
        if ctx.version >= 5 and result.error_code == ErrorCode.NONE:
            _describe(ctx, wanted[result.name], result)
    return CreateTopicsResponse(topics=results + _denied(request.topics, allowed))


def refuse(ctx: RequestContext, request: CreateTopicsRequest, refused: KafkaError) -> CreateTopicsResponse:
    allowed = _allowed(ctx, request.topics)
    results = [_refused(topic.name, refused.code, refused.message) for topic in allowed]
    return CreateTopicsResponse(topics=results + _denied(request.topics, allowed))


def _denied(topics: Sequence[CreatableTopic], allowed: Sequence[CreatableTopic]) -> list[CreatableTopicResult]:
    names = {topic.name for topic in allowed}
    denied = dict.fromkeys(topic.name for topic in topics if topic.name not in names)
    return [_refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.") for name in denied]


def _allowed(ctx: RequestContext, topics: Sequence[CreatableTopic]) -> list[CreatableTopic]:
    everything = ctx.authorize(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    return [
        topic
        for topic in topics
        if everything
        or topic.name == CLUSTER_METADATA_TOPIC  # Refused for every client, whatever its permissions.
        or ctx.authorize(Operation.CREATE, ResourceType.TOPIC, topic.name)
    ]


def _refused(name: str, code: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message or None)


def _describe(ctx: RequestContext, topic: CreatableTopic, result: CreatableTopicResult) -> None:
    if not ctx.authorize(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        result.num_partitions = result.replication_factor = -1
        result.configs = []
        return
    overrides = {config.name: config.value or "" for config in topic.configs}
    result.configs = [
        CreatableTopicConfigs(
            name=row.definition.name, value=row.written, read_only=row.read_only, config_source=row.source
        )
        for row in describe_new_topic(ctx.host.image, overrides, ctx.host.config)
    ]


API = Api(key=19, versions=(2, 7), request=CreateTopicsRequest, handle=handle, refuse=refuse)
