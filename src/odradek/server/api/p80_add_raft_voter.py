"""AddRaftVoter 0-1: an observer becomes a voter of the metadata quorum, once it has caught up (KIP-853).

Answered when the new set of voters is committed; from 1 on the caller can ask not to wait for that.
"""

from __future__ import annotations

from odradek.base.errors import KafkaError
from odradek.protocol.messages.p80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from odradek.server.network.request import Api, ControllerContext
from odradek.server.quorum.voter_changes import change_voters
from odradek.server.quorum.wire import add_from_wire

TIMEOUT_MS_MAX = 60_000


async def handle(ctx: ControllerContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    timeout_ms = min(max(0, request.timeout_ms), TIMEOUT_MS_MAX)
    error, words = await change_voters(ctx, add_from_wire(request), timeout_ms)
    return AddRaftVoterResponse(error_code=error, error_message=words)


def refuse(_ctx: ControllerContext, _request: AddRaftVoterRequest, refused: KafkaError) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=refused.code, error_message=refused.message or None)


API = Api(key=80, versions=(0, 1), request=AddRaftVoterRequest, handle=handle, refuse=refuse)
