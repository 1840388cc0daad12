"""Heartbeat 0-4: a member shows that it is alive, and learns whether the group rebalances. 3: static members.

While the group is being loaded a heartbeat succeeds: loading gives all members a full session timeout anyway.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p12_heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext


def handle(ctx: BrokerContext, request: HeartbeatRequest) -> HeartbeatResponse:
    if not ctx.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        response: HeartbeatResponse = ctx.broker.groups.ask(
            request.group_id, lambda shard, to, now: shard.heartbeat(request, to, now)
        )
    except KafkaError as refusal:
        loading = refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if loading else refusal.code)
    return response


API = Api(key=12, versions=(0, 4), request=HeartbeatRequest, handle=handle)
