"""RemoveRaftVoter 0: one voter less. Answered when the new set of voters is committed; a leader then resigns."""

from __future__ import annotations

import asyncio

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.quorum_wire import remove_from_wire
from odradek.server.request import Api, ControllerContext

# The request names none.
TIMEOUT_S = 30.0


async def handle(ctx: ControllerContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    if not ctx.authorize(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return RemoveRaftVoterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            answer = await ctx.controller.quorum.ask(remove_from_wire(request))
    except TimeoutError:
        return RemoveRaftVoterResponse(
            error_code=ErrorCode.REQUEST_TIMED_OUT, error_message="The voters are not changed yet; they may be later."
        )
    except KafkaError as refused:
        return RemoveRaftVoterResponse(error_code=refused.code, error_message=refused.message)
    return RemoveRaftVoterResponse(error_code=answer.error, error_message=answer.reason or None)


API = Api(key=81, versions=(0, 0), request=RemoveRaftVoterRequest, handle=handle)
