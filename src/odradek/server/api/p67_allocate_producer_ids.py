"""AllocateProducerIds 0: a block of producer ids for a broker to give to its clients."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import BrokerId
from odradek.controller.producer_ids import allocate_producer_ids
from odradek.protocol.messages.p67_allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext


async def handle(ctx: ControllerContext, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return AllocateProducerIdsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        block = await ctx.controller.controller.submit(
            lambda image: allocate_producer_ids(image, BrokerId(request.broker_id), request.broker_epoch)
        )
    except KafkaError as refused:
        return AllocateProducerIdsResponse(error_code=refused.code)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))


API = Api(key=67, versions=(0, 0), request=AllocateProducerIdsRequest, handle=handle)
