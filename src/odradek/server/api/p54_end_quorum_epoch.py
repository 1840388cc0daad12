"""EndQuorumEpoch 0-1: the leader of the metadata log resigns, and names who should follow it. 1 names directories."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p54_end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext
from odradek.server.quorum.answers import end_answer_to_wire
from odradek.server.quorum.wire import end_from_wire


async def handle(ctx: ControllerContext, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return EndQuorumEpochResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    quorum = ctx.controller.quorum
    try:
        answer = await quorum.ask(end_from_wire(request))
    except KafkaError as refused:
        return EndQuorumEpochResponse(error_code=refused.code)
    return end_answer_to_wire(answer, quorum.leader_endpoints())


API = Api(key=54, versions=(0, 1), request=EndQuorumEpochRequest, handle=handle)
