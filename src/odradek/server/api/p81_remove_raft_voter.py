"""RemoveRaftVoter 0: remove a voter. Answered when the new set is committed; a leader that was removed resigns then."""

from __future__ import annotations

from odradek.base.errors import KafkaError
from odradek.protocol.messages.p81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from odradek.server.network.request import Api, ControllerContext
from odradek.server.quorum.voter_changes import change_voters
from odradek.server.quorum.wire import remove_from_wire

# The request has no timeout.
TIMEOUT_MS = 30_000


async def handle(ctx: ControllerContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    error, words = await change_voters(ctx, remove_from_wire(request), TIMEOUT_MS)
    return RemoveRaftVoterResponse(error_code=error, error_message=words)


def refuse(_ctx: ControllerContext, _request: RemoveRaftVoterRequest, refused: KafkaError) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=refused.code, error_message=refused.message or None)


API = Api(key=81, versions=(0, 0), request=RemoveRaftVoterRequest, handle=handle, refuse=refuse)
