"""OffsetCommit 2-10: store how far a group has read.

2-4: the client may say how long to keep the offset. 5: retention is the broker's. 6: leader epoch. 7: static members.
9: an unknown group is GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION before. 10: topics by id.
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.committing import refused
from odradek.protocol.messages.p08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from odradek.security.authorizer import Operation, ResourceType
from odradek.server.committed_topics import keep_known_topics
from odradek.server.network.request import Api, BrokerContext

BY_TOPIC_ID = 10


def handle(ctx: BrokerContext, request: OffsetCommitRequest) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    if not ctx.authorize(Operation.READ, ResourceType.GROUP, request.group_id):
        return refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    unknown = keep_known_topics(ctx, request, by_id=ctx.version >= BY_TOPIC_ID)
    if not request.topics:
        return OffsetCommitResponse(topics=unknown)
    try:
        answer = ctx.broker.groups.ask(
            request.group_id, lambda shard, to, now: shard.commit_offsets(request, ctx.version, to, now)
        )
    except KafkaError as refusal:
        answer = refused(request, refusal.code)
    if isinstance(answer, OffsetCommitResponse):
        answer.topics += unknown
        return answer
    return _committed_later(answer, unknown)


async def _committed_later(
    answer: Awaitable[OffsetCommitResponse], unknown: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    response = await answer
    response.topics += unknown
    return response


API = Api(key=8, versions=(2, 10), request=OffsetCommitRequest, handle=handle)
