"""IncrementalAlterConfigs 0-1: set, delete, append to or subtract from single keys of a resource. 1 is flexible.

The levels of loggers belong to a node and not to the cluster: the node that receives the request changes its own, and
never sends them to the controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from odradek.base.errors import KafkaError
from odradek.controller.configs import (
    Outcome,
    incremental_alter_configs,
    keys_without_value,
    refuse_duplicates,
    refuse_nulls,
    refuse_repeated,
)
from odradek.metadata.image import LOGGER_RESOURCE, ConfigResource
from odradek.protocol.messages.p44_incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.security.authorizer import Operation
from odradek.server.config_resources import alter, check_resource, refuse_alter, refused_outcome
from odradek.server.network.request import Api, RequestContext

Whole = Callable[[IncrementalAlterConfigsResponse | None], IncrementalAlterConfigsResponse]


async def handle(ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    rest, whole = keep(ctx, request)
    if rest is None:
        return whole(None)
    decide = partial(incremental_alter_configs, validate_only=rest.validate_only)
    return whole(_response(await alter(ctx, rest.resources, decide)))


def refuse(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest, refused: KafkaError
) -> IncrementalAlterConfigsResponse:
    return _response(refuse_alter(ctx, request.resources, refused))


def keep(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> tuple[IncrementalAlterConfigsRequest | None, Whole]:
    """Changes the levels of this node's loggers."""
    times = Counter(each.resource_name for each in request.resources if each.resource_type == LOGGER_RESOURCE)
    if not times:
        return request, lambda answer: answer or IncrementalAlterConfigsResponse()
    outcomes = []
    rest = []
    for resource in request.resources:
        if resource.resource_type != LOGGER_RESOURCE:
            rest.append(resource)
            continue
        try:
            refuse_repeated(times[resource.resource_name])
            outcomes.append(_levels_altered(ctx, resource, validate_only=request.validate_only))
        except KafkaError as refused:
            outcomes.append(refused_outcome(resource, refused))
    own = _response(outcomes).responses

    def whole(answer: IncrementalAlterConfigsResponse | None) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(responses=own + (answer.responses if answer else []))

    left = IncrementalAlterConfigsRequest(resources=rest, validate_only=request.validate_only)
    return left if rest else None, whole


def _levels_altered(ctx: RequestContext, resource: AlterConfigsResource, *, validate_only: bool) -> Outcome:
    check_resource(ctx, Operation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
    refuse_duplicates([change.name for change in resource.configs])
    refuse_nulls(keys_without_value(resource))
    ctx.host.loggers.alter(resource.configs, validate_only=validate_only)
    return Outcome(ConfigResource(resource.resource_type, resource.resource_name))


def _response(outcomes: Iterable[Outcome]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error_code,
                error_message=error_message,
                resource_type=resource.type,
                resource_name=resource.name,
            )
            for resource, error_code, error_message in outcomes
        ]
    )


API = Api(key=44, versions=(0, 1), request=IncrementalAlterConfigsRequest, handle=handle, refuse=refuse, keep=keep)
