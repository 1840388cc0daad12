"""IncrementalAlterConfigs 0-1: set, delete, append to or subtract from single keys of a resource. 1 is flexible."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from odradek.base.errors import KafkaError
from odradek.controller.configs import Outcome, incremental_alter_configs
from odradek.protocol.messages.p44_incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.server.config_resources import alter, refuse_alter
from odradek.server.network.request import Api, RequestContext


async def handle(ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    decide = partial(incremental_alter_configs, validate_only=request.validate_only)
    return _response(await alter(ctx, request.resources, decide))


def refuse(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest, refused: KafkaError
) -> IncrementalAlterConfigsResponse:
    return _response(refuse_alter(ctx, request.resources, refused))


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


API = Api(key=44, versions=(0, 1), request=IncrementalAlterConfigsRequest, handle=handle, refuse=refuse)
