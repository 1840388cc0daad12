"""BeginQuorumEpoch 0-1: a leader of the metadata log makes itself known. 1 says where it is reached."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p53_begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext
from odradek.server.quorum.answers import begin_answer_to_wire
from odradek.server.quorum.wire import begin_from_wire


async def handle(ctx: ControllerContext, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return BeginQuorumEpochResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    quorum = ctx.controller.quorum
    try:
        begun = begin_from_wire(request)
        answer = await quorum.ask(begun)
    except KafkaError as refused:
        return BeginQuorumEpochResponse(error_code=refused.code)
    if answer.error is ErrorCode.NONE and answer.leader_id == begun.leader_id:
        # An endpoint from any other node would send this node's fetches to the wrong place.
        for endpoint in request.leader_endpoints[:1]:
            quorum.others.told_endpoint(begun.leader_id, endpoint.name, endpoint.host, endpoint.port)
    return begin_answer_to_wire(answer, quorum.leader_endpoints())


API = Api(key=53, versions=(0, 1), request=BeginQuorumEpochRequest, handle=handle)
