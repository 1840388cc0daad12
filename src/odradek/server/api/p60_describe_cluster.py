"""DescribeCluster 0-2: brokers, controller and cluster id.

1 adds the kind of endpoint asked for; controllers are not reached through a broker. 2 adds fenced brokers, on request.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from odradek.security.authorizer import (
    CLUSTER_NAME,
    OPERATIONS_NOT_REQUESTED,
    Operation,
    ResourceType,
    authorized_operations,
)
from odradek.server.network.request import Api, BrokerContext, RequestContext
from odradek.server.visible_cluster import acting_controller, visible_brokers

BROKERS, CONTROLLERS = 1, 2


def handle(ctx: BrokerContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Endpoint type {request.endpoint_type} is not served here, only brokers ({BROKERS}) are.",
            endpoint_type=BROKERS,
        )
    broker = ctx.broker
    return DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=broker.cluster_id,
        controller_id=acting_controller(broker.image, broker.listener_name, broker.node_id, broker.rng),
        brokers=[
            DescribeClusterBroker(
                broker_id=each.broker_id, host=each.host, port=each.port, rack=each.rack, is_fenced=each.fenced
            )
            for each in visible_brokers(broker.image, broker.listener_name, fenced_too=request.include_fenced_brokers)
        ],
        cluster_authorized_operations=operations(ctx, request),
    )


def operations(ctx: RequestContext, request: DescribeClusterRequest) -> int:
    if not request.include_cluster_authorized_operations:
        return OPERATIONS_NOT_REQUESTED
    may_see = ctx.authorize(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    return authorized_operations(ctx.authorize, ResourceType.CLUSTER, CLUSTER_NAME) if may_see else 0


API = Api(key=60, versions=(0, 2), request=DescribeClusterRequest, handle=handle)
