"""A broker's requests to brokers, itself included: a plain call to itself, a request over the wire to others.

Nothing is retried here: the caller knows whether a retry is safe, and how long it can wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from odradek.base.errors import KafkaError
from odradek.base.ids import BrokerId
from odradek.base.invariants import invariant
from odradek.protocol.schema import Message
from odradek.server.controller.controller_channel import OwnNode
from odradek.server.network.peers import Peers, PeerUnavailable
from odradek.server.network.request import Api, FrameApi, RequestContext

logger = logging.getLogger(__name__)

PURPOSE = "coordination"


class BrokerChannel:
    def __init__(
        self,
        *,
        node_id: BrokerId,
        peers: Peers,
        apis: Mapping[int, Api | FrameApi],
        context: Callable[[OwnNode, int], RequestContext],
    ) -> None:
        self._node_id = node_id
        self._peers = peers
        self._apis = apis
        self._context = context
        self._own_node = OwnNode()

    async def ask(self, broker_id: BrokerId, request: Message, version: int, timeout_ms: int) -> Message | None:
        """None: no answer came. The broker may have carried out the request all the same."""
        try:
            if broker_id != self._node_id:
                answer = await self._peers.ask(broker_id, request, version, timeout_ms=timeout_ms, purpose=PURPOSE)
                return cast("Message", answer)
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._call(request, version)
        except (PeerUnavailable, TimeoutError) as lost:
            logger.info("%s got no answer: %s", type(request).__name__, lost or f"{timeout_ms} ms passed")
            return None

    async def _call(self, request: Message, version: int) -> Message:
        api = self._apis[type(request).KEY]
        invariant(isinstance(api, Api), f"{type(request).__name__} is no request between brokers")
        served = cast("Api", api)
        context = self._context(self._own_node, version)
        try:
            answer = served.handle(context, request)
            return await answer if isinstance(answer, Awaitable) else answer
        except KafkaError as refusal:
            if served.refuse is None:
                raise
            return served.refuse(context, request, refusal)
