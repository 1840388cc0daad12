"""UpdateRaftVoter 0: a voter has moved, or supports other versions, and tells the leader."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.hosts import require_hosts
from odradek.protocol.messages.p82_update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext
from odradek.server.quorum.wire import update_from_wire


async def handle(ctx: ControllerContext, request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return UpdateRaftVoterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    quorum = ctx.controller.quorum
    try:
        require_hosts(request.listeners)
        answer = await quorum.ask(update_from_wire(request))
    except KafkaError as refused:
        return UpdateRaftVoterResponse(error_code=refused.code)
    leader = CurrentLeader(leader_id=answer.leader_id, leader_epoch=answer.leader_epoch)
    for _, endpoint in quorum.leader_endpoints():
        leader.host, leader.port = endpoint.host, endpoint.port
    return UpdateRaftVoterResponse(error_code=answer.error, current_leader=leader)


API = Api(key=82, versions=(0, 0), request=UpdateRaftVoterRequest, handle=handle)
