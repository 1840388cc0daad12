"""Changes of the voters on request: answered once committed, or refused with the reason.

Before a node becomes a voter, the leader connects to it: a controller of this cluster, with that id, must answer at the
address that the other voters will use. The conditions of the quorum itself are in its core.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from odradek.base.errors import ErrorCode, KafkaError, NotController, error_code
from odradek.base.hosts import require_hosts
from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.p52_vote import VoteRequest
from odradek.quorum.messages import AddVoter, RemoveVoter
from odradek.quorum.voters import KRAFT_VERSION, Voter
from odradek.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from odradek.server.network.peers import PeerUnavailable
from odradek.server.network.request import ControllerContext
from odradek.server.quorum.metadata_quorum import MetadataQuorum

PURPOSE = "new voters"
CALL_TIMEOUT_MS = 2_000
# The first version that names the expected node: any other node at that address answers with an error.
API_VERSIONS_VERSION = 5
KRAFT_FEATURE = "kraft.version"


async def change_voters(
    ctx: ControllerContext, change: AddVoter | RemoveVoter, timeout_ms: int
) -> tuple[ErrorCode, str | None]:
    """The error code and message. Raises NotController where this node does not lead."""
    if not ctx.authorize(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None
    quorum = ctx.controller.quorum
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            if isinstance(change, AddVoter):
                require_hosts(change.voter.endpoints)
                if quorum.is_leading:
                    change = replace(change, voter=await _called_on(quorum, change.voter))
            answer = await quorum.ask(change)
    except TimeoutError:
        return ErrorCode.REQUEST_TIMED_OUT, "Timed out; the voter change may still be committed."
    except KafkaError as refused:
        return refused.code, refused.message
    if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        raise NotController(answer.error, answer.reason)
    return answer.error, answer.reason or None


async def _called_on(quorum: MetadataQuorum, voter: Voter) -> Voter:
    """The voter, with the versions that it says it supports."""
    node_id = voter.key.voter_id
    if not voter.endpoints or quorum.voters.has_id(node_id):
        # The core refuses it.
        return voter
    endpoint = voter.endpoints[0]
    where = f"{endpoint.host}:{endpoint.port}"
    request = ApiVersionsRequest(
        client_software_name="odradek",
        client_software_version="0",
        cluster_id=quorum.cluster_id,
        node_id=node_id,
    )
    try:
        answer: ApiVersionsResponse = await quorum.peers.ask(
            node_id, request, API_VERSIONS_VERSION, timeout_ms=CALL_TIMEOUT_MS, purpose=PURPOSE, at=endpoint
        )
    except PeerUnavailable as lost:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No controller answers at {where}: {lost}.") from lost
    if error_code(answer.error_code) is not ErrorCode.NONE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The server at {where} is not node {node_id} of this cluster.")
    if all(api.api_key != VoteRequest.KEY for api in answer.api_keys):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The server at {where} is not a controller.")
    for feature in answer.supported_features:
        if feature.name == KRAFT_FEATURE and feature.min_version <= KRAFT_VERSION <= feature.max_version:
            return replace(voter, min_kraft_version=feature.min_version, max_kraft_version=feature.max_version)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node {node_id} does not support {KRAFT_FEATURE} {KRAFT_VERSION}.")
