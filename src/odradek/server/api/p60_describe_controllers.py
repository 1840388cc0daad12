"""DescribeCluster 0-2 at a controller: who the controllers are, where they are reached, and which of them leads.

For tools that are given controllers instead of brokers (KIP-919). A request for brokers gets an error.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from odradek.server.api.p60_describe_cluster import CONTROLLERS, operations
from odradek.server.network.request import Api, ControllerContext


def handle(ctx: ControllerContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=f"Endpoint type {request.endpoint_type} is not served, only {CONTROLLERS} (controllers).",
            endpoint_type=CONTROLLERS,
        )
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=ctx.controller.cluster_id,
        controller_id=ctx.controller.quorum.leader_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node_id, host=each.listeners[0].host, port=each.listeners[0].port, rack=None
            )
            for node_id, each in sorted(ctx.controller.image.controllers.items())
            if each.listeners
        ],
        cluster_authorized_operations=operations(ctx, request),
    )


API = Api(key=60, versions=(0, 2), request=DescribeClusterRequest, handle=handle)
