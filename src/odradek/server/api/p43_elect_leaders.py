"""ElectLeaders 0-2: 0 elects preferred leaders; 1 adds unclean elections and an error on top; 2 is flexible.

A request without topics asks for every partition; the answer then leaves out partitions that need no election.
"""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.controller.elections import ElectionType, elect_leaders
from odradek.protocol.messages.p43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.request import Api, RequestContext


async def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if not ctx.authorize(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "")
    if request.election_type not in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        return _refused(request, ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    election = ElectionType(request.election_type)
    results = await ctx.host.controller.submit(
        lambda image: elect_leaders(image, election, request.topic_partitions, ctx.host.config)
    )
    return ElectLeadersResponse(replica_election_results=results)


def refuse(_ctx: RequestContext, request: ElectLeadersRequest, refused: KafkaError) -> ElectLeadersResponse:
    return _refused(request, refused.code, refused.message)


def _refused(request: ElectLeadersRequest, code: ErrorCode, message: str) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=message or code.name)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


API = Api(key=43, versions=(0, 2), request=ElectLeadersRequest, handle=handle, refuse=refuse)
