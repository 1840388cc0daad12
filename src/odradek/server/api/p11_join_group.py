"""JoinGroup 0-9: become a member, or take part in a rebalance.

1: a rebalance timeout of its own. 4: a new member must rejoin with the id it is given (KIP-394). 5: static members
(KIP-345). 7: the group's protocol type in the answer, and null instead of an empty protocol. 8: the client's reason.
9: the answer can tell a static leader that rejoins to skip the assignment (KIP-814).
"""

from __future__ import annotations

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import random_uuid
from odradek.base.ports import Rng
from odradek.coordinator.effects import Effects, Now
from odradek.coordinator.group.joining import Joining
from odradek.coordinator.group.shard import GroupShard
from odradek.protocol.messages.p11_join_group import JoinGroupRequest, JoinGroupResponse
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.network.request import Api, BrokerContext

MEMBER_ID_REQUIRED = 4
NULL_PROTOCOL = 7
SKIP_ASSIGNMENT = 9


async def handle(ctx: BrokerContext, request: JoinGroupRequest) -> JoinGroupResponse:
    try:
        _check(ctx, request)
        response: JoinGroupResponse = await ctx.broker.groups.answered(
            request.group_id, lambda shard, to, now: _turn(ctx, request, shard, to, now)
        )
    except KafkaError as refusal:
        response = JoinGroupResponse(member_id=request.member_id, error_code=refusal.code)
    if ctx.version < NULL_PROTOCOL:
        response.protocol_name = response.protocol_name or ""
    else:
        response.protocol_name = response.protocol_name or None
    return response


def _check(ctx: BrokerContext, request: JoinGroupRequest) -> None:
    config = ctx.broker.config
    if not ctx.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
    names = [request.protocol_type, request.group_instance_id or "", *(protocol.name for protocol in request.protocols)]
    if any(len(name) > limits.member_names_chars_max for name in names):
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _turn(ctx: BrokerContext, request: JoinGroupRequest, shard: GroupShard, to: object, now: Now) -> Effects:
    client_id = ctx.client_id or ""
    joining = Joining(
        request=request,
        client_id=client_id,
        client_host=f"/{ctx.client_host}",
        new_member_id=_new_member_id(request.group_instance_id or client_id, ctx.broker.rng),
        must_know_its_id=ctx.version >= MEMBER_ID_REQUIRED,
        can_skip_assignment=ctx.version >= SKIP_ASSIGNMENT,
        to=to,
    )
    return shard.join(joining, now)


def _new_member_id(name: str, rng: Rng) -> str:
    digits = random_uuid(rng).hex()
    return f"{name}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


API = Api(key=11, versions=(0, 9), request=JoinGroupRequest, handle=handle)
