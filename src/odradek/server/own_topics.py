"""Topics that a broker creates by itself: on first use, or because it keeps its own state in them."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p19_create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.server.broker import Broker

TIMEOUT_MS = 30_000


async def create_by_itself(broker: Broker, wanted: Sequence[CreatableTopic]) -> list[CreatableTopicResult]:
    """Returns when this broker knows the topics, whichever node created them: it can serve them at once.

    Only topics that could not be created have a result with an error.
    """
    request = CreateTopicsRequest(topics=list(wanted), timeout_ms=TIMEOUT_MS)
    response = await broker.channel.ask(request, CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
    for result in response.topics:
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            result.error_code = ErrorCode.NONE
        if not result.error_code:
            await broker.knows_topic(result.name)
    return response.topics
