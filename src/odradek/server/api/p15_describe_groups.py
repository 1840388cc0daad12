"""DescribeGroups 0-6: state and members of classic groups. 3: authorized operations. 4: instance ids.

An unknown group is `Dead` without an error up to 5; 6 says GROUP_ID_NOT_FOUND. Metadata is shown while it is stable.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.classic_group import ClassicGroup
from odradek.coordinator.group.states import GroupState
from odradek.protocol.messages.p15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.security.authorizer import Operation, ResourceType, authorized_operations
from odradek.server.network.request import Api, BrokerContext

NOT_FOUND_IS_AN_ERROR = 6


def handle(ctx: BrokerContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    described = [_describe(ctx, group_id) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in described:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(ctx.authorize, ResourceType.GROUP, group.group_id)
    return DescribeGroupsResponse(groups=described)


def _describe(ctx: BrokerContext, group_id: str) -> DescribedGroup:
    if not ctx.authorize(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        group = ctx.broker.groups.shard(group_id).groups.get(group_id)
    except KafkaError as refusal:
        return DescribedGroup(group_id=group_id, error_code=refusal.code)
    if group is not None:
        return _described(group)
    unknown = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if ctx.version >= NOT_FOUND_IS_AN_ERROR:
        unknown.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        unknown.error_message = f"Group {group_id} not found."
    return unknown


def _described(group: ClassicGroup) -> DescribedGroup:
    # None: no metadata. A group that rebalances has no protocol yet.
    shown = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=shown or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(shown),
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


API = Api(key=15, versions=(0, 6), request=DescribeGroupsRequest, handle=handle)
