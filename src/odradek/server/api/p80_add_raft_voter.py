"""AddRaftVoter 0-1: an observer becomes a voter of the metadata quorum, once it has caught up (KIP-853).

Answered when the new set of voters is committed; 1 lets the caller be content with less.
"""

from __future__ import annotations

import asyncio

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.quorum_wire import add_from_wire
from odradek.server.request import Api, ControllerContext

TIMEOUT_MS_MAX = 60_000


async def handle(ctx: ControllerContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    if not ctx.authorize(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return AddRaftVoterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None)
    try:
        async with asyncio.timeout(min(max(0, request.timeout_ms), TIMEOUT_MS_MAX) / 1000):
            answer = await ctx.controller.quorum.ask(add_from_wire(request))
    except TimeoutError:
        return AddRaftVoterResponse(
            error_code=ErrorCode.REQUEST_TIMED_OUT, error_message="The voters are not changed yet; they may be later."
        )
    except KafkaError as refused:
        return AddRaftVoterResponse(error_code=refused.code, error_message=refused.message)
    return AddRaftVoterResponse(error_code=answer.error, error_message=answer.reason or None)


API = Api(key=80, versions=(0, 1), request=AddRaftVoterRequest, handle=handle)
