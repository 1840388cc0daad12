"""ControllerRegistration 0: a controller says where it is reached and what it supports."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.brokers import register_controller
from odradek.protocol.messages.p70_controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext


async def handle(ctx: ControllerContext, request: ControllerRegistrationRequest) -> ControllerRegistrationResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return ControllerRegistrationResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        await ctx.controller.controller.submit(lambda image: register_controller(image, request))
    except KafkaError as refused:
        return ControllerRegistrationResponse(error_code=refused.code, error_message=refused.message)
    return ControllerRegistrationResponse()


API = Api(key=70, versions=(0, 0), request=ControllerRegistrationRequest, handle=handle)
