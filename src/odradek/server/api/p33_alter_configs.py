"""AlterConfigs 0-2: replace all that is set for a resource: keys that are not named fall back. 2 is flexible."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from odradek.base.errors import KafkaError
from odradek.controller.configs import Outcome, alter_configs
from odradek.protocol.messages.p33_alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from odradek.server.config_resources import alter, refuse_alter
from odradek.server.network.request import Api, RequestContext


async def handle(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    decide = partial(alter_configs, validate_only=request.validate_only)
    return _response(await alter(ctx, request.resources, decide))


def refuse(ctx: RequestContext, request: AlterConfigsRequest, refused: KafkaError) -> AlterConfigsResponse:
    return _response(refuse_alter(ctx, request.resources, refused))


def _response(outcomes: Iterable[Outcome]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
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


API = Api(key=33, versions=(0, 2), request=AlterConfigsRequest, handle=handle, refuse=refuse)
