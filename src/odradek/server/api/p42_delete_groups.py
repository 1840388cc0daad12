"""DeleteGroups 0-3: remove empty groups with their offsets. 3: error messages."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext


async def handle(ctx: BrokerContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=[await _delete(ctx, group_id) for group_id in names])


async def _delete(ctx: BrokerContext, group_id: str) -> DeletableGroupResult:
    if not ctx.authorize(Operation.DELETE, ResourceType.GROUP, group_id):
        return DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        await ctx.broker.groups.answered(group_id, lambda shard, to, now: shard.delete(group_id, to, now))
    except KafkaError as refusal:
        return DeletableGroupResult(group_id=group_id, error_code=refusal.code, error_message=refusal.message or None)
    return DeletableGroupResult(group_id=group_id)


API = Api(key=42, versions=(0, 3), request=DeleteGroupsRequest, handle=handle)
