"""A broker's way to the active controller: a plain call when it is in this process, a request over the wire otherwise.

Nothing is retried here: the caller knows whether a retry is safe, and how long it can wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NoReturn, Protocol, TypeVar, cast

from odradek.base.errors import ErrorCode, KafkaError, NotController
from odradek.base.ids import NO_BROKER, BrokerId
from odradek.base.invariants import InvariantBroken, invariant
from odradek.protocol.schema import Message
from odradek.server.network.peers import Peers, PeerUnavailable
from odradek.server.network.request import (
    UNKNOWN_SOFTWARE,
    Api,
    ClientSoftware,
    FrameApi,
    ReplySlot,
    RequestContext,
)

PURPOSE = "controller"
R = TypeVar("R", bound=Message)


class Leadership(Protocol):
    """The leader of the metadata quorum, as far as this node knows."""

    @property
    def leader_id(self) -> BrokerId: ...


class OwnNode:
    """The connection of a request that a node makes to itself."""

    client_host = "this node"
    principal = "User:ANONYMOUS"
    request: RequestContext | None = None
    software: ClientSoftware = UNKNOWN_SOFTWARE
    client_port = 0
    observer = None

    def park(self, *, stop_reading: bool, on_lost: Callable[[], None] | None = None) -> ReplySlot:  # noqa: ARG002
        raise InvariantBroken("a request of a node to its own controller has no reply order")

    def end(self, why: str) -> NoReturn:
        raise InvariantBroken(f"a request of a node to its own controller was refused: {why}")


class ControllerChannel:
    def __init__(
        self,
        *,
        node_id: BrokerId,
        quorum: Leadership,
        peers: Peers,
        apis: Mapping[int, Api | FrameApi],
        context: Callable[[OwnNode, int], RequestContext],
    ) -> None:
        self._node_id = node_id
        self._quorum = quorum
        self._peers = peers
        self._apis = apis
        self._context = context
        # One for all: the controller remembers over which connections it hears brokers.
        self._own_node = OwnNode()

    @property
    def is_local(self) -> bool:
        return self._quorum.leader_id == self._node_id

    def leader_was(self, node_id: BrokerId) -> None:
        """Another node leads now: requests to the old leader fail, and their callers may retry."""
        self._peers.hang_up(node_id, PURPOSE, "it is no longer the leader")

    async def ask(self, request: Message, answer: type[R], *, timeout_ms: int) -> R:
        """NOT_CONTROLLER: this node knows no leader. REQUEST_TIMED_OUT: the request may have taken effect or not."""
        version = type(request).VERSIONS[1]
        leader = self._quorum.leader_id
        if leader == self._node_id:
            # This node's own controller may also take long to commit. The commit continues after the timeout.
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    return _expected(answer, await self._call(request, version))
            except TimeoutError as late:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Controller was slower than {timeout_ms} ms.") from late
        if leader == NO_BROKER:
            raise NotController(ErrorCode.NOT_CONTROLLER, "The metadata quorum has no leader at the moment.")
        try:
            told = await self._peers.ask(leader, request, version, timeout_ms=timeout_ms, purpose=PURPOSE)
        except PeerUnavailable as lost:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Controller {leader} did not answer: {lost}") from lost
        return _expected(answer, told)

    async def _call(self, request: Message, version: int) -> Message:
        api = cast("Api", self._apis[type(request).KEY])
        answer = api.handle(self._context(self._own_node, version), request)
        return await answer if isinstance(answer, Awaitable) else answer


def _expected(kind: type[R], answer: Message) -> R:
    invariant(isinstance(answer, kind), f"{answer} is no {kind.__name__}")
    return cast("R", answer)
