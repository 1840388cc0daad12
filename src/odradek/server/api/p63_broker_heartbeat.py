"""BrokerHeartbeat 0-2: a broker is alive, how far it has read the metadata log, and whether it wants to serve or stop.

1 reports log directories that failed.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId
from odradek.protocol.messages.p63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext


async def handle(ctx: ControllerContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return BrokerHeartbeatResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    controller = ctx.controller.controller
    now_ms = ctx.controller.clock.monotonic_ms()
    # Before the first await: if the connection is lost meanwhile, it must be forgotten after this call, not before.
    ctx.controller.heard(ctx.connection, BrokerId(request.broker_id))
    try:
        decided = controller.submit(lambda image: controller.heartbeats.answer(image, request, now_ms))
        controller.watch_sessions()
        return await decided
    except KafkaError as refused:
        return BrokerHeartbeatResponse(error_code=refused.code)


API = Api(key=63, versions=(0, 2), request=BrokerHeartbeatRequest, handle=handle)
