"""AlterPartitionReassignments 0-1: partitions move, or stop moving. 1 may insist on as many replicas as before."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.reassign import alter_partition_reassignments
from odradek.protocol.messages.p45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, RequestContext


async def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    if not ctx.authorize(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return AlterPartitionReassignmentsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None
        )
    return await ctx.host.controller.submit(
        lambda image: alter_partition_reassignments(image, request, ctx.host.config)
    )


def refuse(
    _ctx: RequestContext, _request: AlterPartitionReassignmentsRequest, refused: KafkaError
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=refused.code, error_message=refused.message or None)


API = Api(key=45, versions=(0, 1), request=AlterPartitionReassignmentsRequest, handle=handle, refuse=refuse)
