"""Fetch 17-18 on a controller: followers and observers of the metadata log, and nothing else.

A fetch from an offset means that all before it is durable on the replica. 18 sends the high watermark that the replica
knows, so that a higher one is sent at once.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.messages.p01_fetch import FetchRequest, FetchResponse
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, ControllerContext
from odradek.server.quorum.answers import fetch_answer_to_wire
from odradek.server.quorum.wire import fetch_from_wire


async def handle(ctx: ControllerContext, request: FetchRequest) -> FetchResponse:
    if not ctx.authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    quorum = ctx.controller.quorum
    try:
        answer = await quorum.fetches.answer(fetch_from_wire(request), request.max_wait_ms)
    except KafkaError as refused:
        return FetchResponse(error_code=refused.code)
    return fetch_answer_to_wire(answer, quorum.log.log_start_offset, quorum.leader_endpoints())


API = Api(key=1, versions=(17, 18), request=FetchRequest, handle=handle)
