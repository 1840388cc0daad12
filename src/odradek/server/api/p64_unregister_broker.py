"""UnregisterBroker 0: an operator says that a broker will not come back."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId
from odradek.controller.fencing import unregister_broker
from odradek.protocol.messages.p64_unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, RequestContext


async def handle(ctx: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    if not ctx.authorize(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return UnregisterBrokerResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None)
    broker_id = BrokerId(request.broker_id)
    await ctx.host.controller.submit(lambda image: unregister_broker(image, broker_id, ctx.host.config))
    return UnregisterBrokerResponse(error_message=None)


def refuse(_ctx: RequestContext, _request: UnregisterBrokerRequest, refused: KafkaError) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=refused.code, error_message=refused.message or None)


API = Api(key=64, versions=(0, 0), request=UnregisterBrokerRequest, handle=handle, refuse=refuse)
