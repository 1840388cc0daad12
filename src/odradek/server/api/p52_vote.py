"""Vote 0-2: may the candidate lead the metadata log? 1 names voters with their directory. 2 asks what the answer would
be, without a vote being cast (KIP-996)."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p52_vote import VoteRequest, VoteResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext
from odradek.server.quorum.answers import vote_answer_to_wire
from odradek.server.quorum.wire import vote_from_wire


async def handle(ctx: ControllerContext, request: VoteRequest) -> VoteResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return VoteResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    quorum = ctx.controller.quorum
    try:
        answer = await quorum.ask(vote_from_wire(request))
    except KafkaError as refused:
        return VoteResponse(error_code=refused.code)
    return vote_answer_to_wire(answer, quorum.leader_endpoints())


API = Api(key=52, versions=(0, 2), request=VoteRequest, handle=handle)
