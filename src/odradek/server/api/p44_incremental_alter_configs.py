"""IncrementalAlterConfigs 0-1: set, delete, append to or subtract from single keys of a resource. 1 is flexible."""

from __future__ import annotations

from odradek.base.errors import KafkaError
from odradek.controller.configs import incremental_alter_configs
from odradek.protocol.messages.p44_incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.security.authorizer import Operation
from odradek.server.config_resources import check_resource
from odradek.server.request import Api, RequestContext


async def handle(ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    allowed: list[AlterConfigsResource] = []
    responses: list[AlterConfigsResourceResponse] = []
    for resource in request.resources:
        try:
            check_resource(ctx, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
            allowed.append(resource)
        except KafkaError as refused:
            responses.append(_refused(resource, refused))
    try:
        decided = await ctx.broker.controller.submit(
            lambda image: incremental_alter_configs(image, allowed, validate_only=request.validate_only)
        )
        responses += decided
    except KafkaError as refused:
        responses += [_refused(resource, refused) for resource in allowed]
    return IncrementalAlterConfigsResponse(responses=responses)


def _refused(resource: AlterConfigsResource, refused: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=refused.code,
        error_message=refused.message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


API = Api(key=44, versions=(0, 1), request=IncrementalAlterConfigsRequest, handle=handle)
