"""LeaveGroup 0-5: members leave, or an operator removes them.

3: several at once, static ones by instance id. 5: reasons.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext

SEVERAL_MEMBERS = 3


def handle(ctx: BrokerContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    if not ctx.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    one_by_one = ctx.version < SEVERAL_MEMBERS
    leaving = [MemberIdentity(member_id=request.member_id)] if one_by_one else request.members
    try:
        response: LeaveGroupResponse = ctx.broker.groups.ask(
            request.group_id, lambda shard, to, now: shard.leave(request.group_id, leaving, to, now)
        )
    except KafkaError as refusal:
        return LeaveGroupResponse(error_code=refusal.code)
    if one_by_one:
        response.error_code = response.members[0].error_code
    return response


API = Api(key=13, versions=(0, 5), request=LeaveGroupRequest, handle=handle)
