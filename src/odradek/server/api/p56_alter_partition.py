"""AlterPartition 2-3: the leader of a partition proposes who is in sync. 3 names them with their broker epochs."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.isr_changes import alter_partition
from odradek.protocol.messages.p56_alter_partition import AlterPartitionRequest, AlterPartitionResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext


async def handle(ctx: ControllerContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    controller = ctx.controller
    try:
        return await controller.controller.submit(lambda image: alter_partition(image, request, controller.config))
    except KafkaError as refused:
        return AlterPartitionResponse(error_code=refused.code)


API = Api(key=56, versions=(2, 3), request=AlterPartitionRequest, handle=handle)
