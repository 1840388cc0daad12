"""ListConfigResources 0-1: what can have configurations. 0 asks for client metrics alone, 1 says of which kinds.

Topics, client metrics subscriptions and brokers are listed; the loggers of a broker have its name. Groups have no
configurations here: their list is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.errors import ErrorCode
from odradek.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    TOPIC_RESOURCE,
)
from odradek.protocol.messages.p74_list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext
from odradek.server.visible_cluster import visible_brokers

KINDS = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)


def handle(ctx: BrokerContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    if not ctx.authorize(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    kinds: Sequence[int] = (CLIENT_METRICS_RESOURCE,) if ctx.version == 0 else request.resource_types or KINDS
    if any(kind not in KINDS for kind in kinds):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = ctx.broker.image
    resources: list[ConfigResource] = []
    if CLIENT_METRICS_RESOURCE in kinds:
        resources += [
            ConfigResource(resource_name=name, resource_type=CLIENT_METRICS_RESOURCE) for name in image.client_metrics()
        ]
    for kind in (LOGGER_RESOURCE, BROKER_RESOURCE):
        if kind in kinds:
            resources += [
                ConfigResource(resource_name=str(broker.broker_id), resource_type=kind)
                for broker in visible_brokers(image, ctx.broker.listener_name)
            ]
    if TOPIC_RESOURCE in kinds:
        resources += [ConfigResource(resource_name=name, resource_type=TOPIC_RESOURCE) for name in image.topics]
    return ListConfigResourcesResponse(config_resources=resources)


API = Api(key=74, versions=(0, 1), request=ListConfigResourcesRequest, handle=handle)
