"""DescribeConfigs 1-4: every key of a resource, its value, where that came from and what is behind it.

1 has sources and, when asked for, synonyms; 3 adds types and, when asked for, documentation; 4 is flexible. Tools
write back what they read, so all keys are listed and each can be set as it was shown. The nameless broker shows what
is set for all. The keys of a broker's loggers are their names.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.topic_names import check_topic_name
from odradek.metadata.configs.definition import ConfigSource
from odradek.metadata.configs.effective import Described
from odradek.metadata.configs.in_force import (
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_topic,
)
from odradek.metadata.image import CLIENT_METRICS_RESOURCE, LOGGER_RESOURCE, TOPIC_RESOURCE
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
        check_resource(ctx, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
        if resource.resource_type == LOGGER_RESOURCE:
            entries = [_logger_entry(name, level) for name, level in ctx.broker.loggers.levels().items()]
        else:
            entries = [_entry(request, row) for row in _rows(ctx, resource)]
    except KafkaError as refused:
        result.error_code, result.error_message = refused.code, refused.message or None
        return result
    wanted = resource.configuration_keys
    result.configs = [entry for entry in entries if not wanted or entry.name in wanted]
    return result


def _rows(ctx: BrokerContext, resource: DescribeConfigsResource) -> list[Described]:
    name, image = resource.resource_name, ctx.broker.image
    if resource.resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe_client_metrics(image, name)
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


def _logger_entry(name: str, level: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name, value=level, config_source=ConfigSource.DYNAMIC_BROKER_LOGGER, documentation=None
    )


API = Api(key=32, versions=(1, 4), request=DescribeConfigsRequest, handle=handle)
