"""AssignReplicasToDirs 0: a broker says on which of its disks its replicas lie."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.directories import assign_replicas_to_dirs
from odradek.protocol.messages.p73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext


async def handle(ctx: ControllerContext, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return AssignReplicasToDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    controller = ctx.controller
    try:
        return await controller.controller.submit(
            lambda image: assign_replicas_to_dirs(image, request, controller.config)
        )
    except KafkaError as refused:
        return AssignReplicasToDirsResponse(error_code=refused.code)


API = Api(key=73, versions=(0, 0), request=AssignReplicasToDirsRequest, handle=handle)
