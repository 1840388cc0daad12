"""BrokerRegistration 0-4: a broker enters the cluster, fenced, and gets the epoch that stands for its incarnation.

2 names its directories, 3 the epoch it had before a clean stop.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.brokers import register_broker, registration_of
from odradek.protocol.messages.p62_broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext


async def handle(ctx: ControllerContext, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return BrokerRegistrationResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    controller, wanted = ctx.controller, registration_of(request)
    now_ms = controller.clock.monotonic_ms()
    heartbeats = controller.controller.heartbeats
    try:
        broker_epoch = await controller.controller.submit(
            lambda image: register_broker(
                image,
                wanted,
                has_session=heartbeats.has_session(wanted.broker_id, now_ms),
                is_heard=heartbeats.is_heard(wanted.broker_id),
                config=controller.config,
            )
        )
    except KafkaError as refused:
        return BrokerRegistrationResponse(error_code=refused.code)
    return BrokerRegistrationResponse(broker_epoch=broker_epoch)


API = Api(key=62, versions=(0, 4), request=BrokerRegistrationRequest, handle=handle)
