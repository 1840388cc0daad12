"""ListGroups 0-5: the groups that this broker coordinates. 4: filtered by state. 5: filtered by type."""

from __future__ import annotations

from odradek.base.errors import KafkaError
from odradek.protocol.messages.p16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext


def handle(ctx: BrokerContext, request: ListGroupsRequest) -> ListGroupsResponse:
    states = frozenset(state.strip().lower() for state in request.states_filter)
    types = frozenset(group_type.strip().lower() for group_type in request.types_filter)
    sees_all = ctx.authorize(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    try:
        selected = [group for shard in ctx.broker.groups.shards() for group in shard.select(states, types)]
    except KafkaError as refusal:
        return ListGroupsResponse(error_code=refusal.code)
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=group.group_type,
            )
            for group in selected
            if sees_all or ctx.authorize(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
        ]
    )


API = Api(key=16, versions=(0, 5), request=ListGroupsRequest, handle=handle)
