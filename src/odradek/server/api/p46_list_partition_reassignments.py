"""ListPartitionReassignments 0: which partitions are moving, from where and to where."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.controller.reassign import list_partition_reassignments
from odradek.protocol.messages.p46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, RequestContext


def handle(ctx: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    if not ctx.authorize(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None)
    return list_partition_reassignments(ctx.host.image, request.topics)


API = Api(key=46, versions=(0, 0), request=ListPartitionReassignmentsRequest, handle=handle)
