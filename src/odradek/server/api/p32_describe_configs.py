"""DescribeConfigs 1-4: every key of a topic or broker, its value, where that came from and what is behind it.

1 has sources and, when asked for, synonyms; 3 adds types and, when asked for, documentation; 4 is flexible. Tools
write back what they read, so all keys are listed and each can be set as it was shown. The nameless broker shows what
is set for all.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.topic_names import check_topic_name
from odradek.metadata.configs.effective import Described
from odradek.metadata.configs.in_force import describe_broker, describe_cluster_defaults, describe_topic
from odradek.metadata.image import TOPIC_RESOURCE
from odradek.protocol.messages.p32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from odradek.security.authorizer import Operation
from odradek.server.config_resources import check_resource
from odradek.server.network.request import Api, BrokerContext


def handle(ctx: BrokerContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_result(ctx, request, resource) for resource in request.resources])


def _result(
    ctx: BrokerContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        rows = _rows(ctx, resource)
    except KafkaError as refused:
        result.error_code, result.error_message = refused.code, refused.message or None
        return result
    wanted = resource.configuration_keys
    result.configs = [_entry(request, row) for row in rows if not wanted or row.definition.name in wanted]
    return result


def _rows(ctx: BrokerContext, resource: DescribeConfigsResource) -> list[Described]:
    name, image = resource.resource_name, ctx.broker.image
    check_resource(ctx, Operation.DESCRIBE_CONFIGS, resource.resource_type, name)
    if resource.resource_type == TOPIC_RESOURCE:
        check_topic_name(name)
        if name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(image, name, ctx.broker.config)
    return describe_broker(image, ctx.broker.config) if name else describe_cluster_defaults(image)


def _entry(request: DescribeConfigsRequest, row: Described) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=row.definition.name,
        value=row.written,
        read_only=row.read_only,
        config_source=row.source,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.written, source=synonym.source)
            for synonym in row.synonyms
            if request.include_synonyms
        ],
        config_type=row.definition.type,
        documentation=row.definition.doc if request.include_documentation else None,
    )


API = Api(key=32, versions=(1, 4), request=DescribeConfigsRequest, handle=handle)
