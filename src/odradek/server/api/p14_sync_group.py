"""SyncGroup 0-5: the leader sends the assignments, each member gets its own.

3: static members. 5: the protocol is named.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p14_sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext

PROTOCOL_NAMED = 5


async def handle(ctx: BrokerContext, request: SyncGroupRequest) -> SyncGroupResponse:
    try:
        _check(ctx, request)
        response: SyncGroupResponse = await ctx.broker.groups.answered(
            request.group_id, lambda shard, to, now: shard.sync(request, to, now)
        )
    except KafkaError as refusal:
        return SyncGroupResponse(error_code=refusal.code)
    return response


def _check(ctx: BrokerContext, request: SyncGroupRequest) -> None:
    if not ctx.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if ctx.version >= PROTOCOL_NAMED and (request.protocol_type is None or request.protocol_name is None):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


API = Api(key=14, versions=(0, 5), request=SyncGroupRequest, handle=handle)
