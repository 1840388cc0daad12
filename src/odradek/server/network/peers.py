"""Requests to other nodes, over connections that are made when needed.

One connection for each node and purpose. Requests with the same purpose are answered in order, and fail together. A
request fails with `PeerUnavailable` when the peer refuses, is lost, or does not answer in time. The caller decides
whether to retry, since the peer may have executed it. After a failure there is a pause before the next attempt to
connect; requests made meanwhile wait, at most until their own timeout.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Callable
from typing import Any, Protocol, cast

from odradek.base import limits
from odradek.base.hosts import CONNECT_ERRORS
from odradek.base.ids import BrokerId
from odradek.base.ports import Clock, Net, Spawner
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.schema import Message
from odradek.server.network.frames import FramePool
from odradek.server.network.peer_connection import PeerConnection, PeerUnavailable, Question

__all__ = ["Endpoint", "PeerUnavailable", "Peers"]

logger = logging.getLogger(__name__)

PAUSE_MS_MIN = 50
PAUSE_MS_MAX = 1_000


class Endpoint(Protocol):
    """Where a node listens."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class Peers:
    """`resolve` is called for every request: when the address changes, the connection is replaced."""

    def __init__(
        self,
        *,
        net: Net,
        clock: Clock,
        spawner: Spawner,
        resolve: Callable[[BrokerId], Endpoint | None],
        client_id: str,
    ) -> None:
        self.net = net
        self.clock = clock
        self.spawner = spawner
        self.client_id = client_id
        # Called when a connection to this peer broke: only a hint that it died.
        self.on_lost: Callable[[BrokerId], None] = lambda _: None
        # One for all connections of the loop: a read is consumed before the next one starts.
        self.receive_buffer = memoryview(bytearray(limits.receive_buffer_bytes))
        self.frame_pool = FramePool()
        self._resolve = resolve
        self._lines: dict[tuple[BrokerId, str], _Line] = {}
        # Of every line, and replaced ones that are not closed yet.
        self._connections: dict[PeerConnection, None] = {}
        self._all_gone = asyncio.Event()
        self._closed = False

    async def ask(
        self,
        node_id: BrokerId,
        request: Message,
        version: int,
        *,
        timeout_ms: int,
        purpose: str = "",
        at: Endpoint | None = None,
    ) -> Any:  # noqa: ANN401 - the response class that stands beside the request's
        """`at`: an address to try instead of the known one."""
        body = await self.ask_for_bytes(
            node_id, request.encode(version), request.KEY, version, timeout_ms=timeout_ms, purpose=purpose, at=at
        )
        try:
            return response_class(type(request)).decode(body, version)
        except MalformedMessage as broken:
            raise PeerUnavailable(f"node {node_id} sent a reply that cannot be read: {broken}") from broken

    async def ask_for_bytes(
        self,
        node_id: BrokerId,
        frame_body: bytes,
        api_key: int,
        version: int,
        *,
        timeout_ms: int,
        purpose: str = "",
        at: Endpoint | None = None,
    ) -> memoryview:
        """The reply's body, undecoded. It lies in a buffer of its own: views of it may be kept."""
        if self._closed:
            raise PeerUnavailable("this node is stopping")
        endpoint = at or self._resolve(node_id)
        if endpoint is None:
            raise PeerUnavailable(f"the address of node {node_id} is not known")
        line = self._lines.get((node_id, purpose))
        if line is None:
            line = self._lines[node_id, purpose] = _Line(self, node_id)
        loop = asyncio.get_running_loop()
        question = Question(api_key, version, frame_body, loop.create_future())
        # Before it is sent: its failure may come at once.
        timer = loop.call_later(timeout_ms / 1000, line.time_is_up, question, timeout_ms)
        try:
            line.ask(question, (endpoint.host, endpoint.port))
            return await question.answer
        except PeerUnavailable as broken:
            raise PeerUnavailable(f"node {node_id} at {endpoint.host}:{endpoint.port}: {broken}") from None
        finally:
            timer.cancel()
            line.forget(question)

    def hang_up(self, node_id: BrokerId, purpose: str, why: str) -> None:
        """Fails all requests that wait for this node: the caller knows that it will not answer."""
        line = self._lines.get((node_id, purpose))
        if line is not None:
            line.hang_up(why)

    async def close(self) -> None:
        """Fails all waiting requests, and every later one."""
        self._closed = True
        for line in self._lines.values():
            line.hang_up("this node is stopping")
        while self._connections:
            self._all_gone.clear()
            await self._all_gone.wait()

    # What the lines tell

    def opened(self, connection: PeerConnection) -> None:
        self._connections[connection] = None

    def gone(self, connection: PeerConnection) -> None:
        self._connections.pop(connection, None)
        if not self._connections:
            self._all_gone.set()


class _Line:
    """The connection to one node for one purpose, the attempt to make it, or the pause before the next attempt."""

    __slots__ = (
        "_address",
        "_attempt",
        "_connection",
        "_node_id",
        "_pause",
        "_pause_ms",
        "_paused_until_ms",
        "_peers",
        "_waiting",
    )

    def __init__(self, peers: Peers, node_id: BrokerId) -> None:
        self._peers = peers
        self._node_id = node_id
        self._address = ("", 0)
        self._connection: PeerConnection | None = None
        self._attempt: asyncio.Task[None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        # How long the last pause was, 0 when the peer has answered since.
        self._pause_ms = 0
        self._paused_until_ms = 0
        # Not sent yet, in the order they were asked.
        self._waiting: dict[Question, None] = {}

    def ask(self, question: Question, address: tuple[str, int]) -> None:
        if address != self._address:
            self._move(address)
        connection = self._connection
        under_way = len(self._waiting) + (connection.unanswered_count if connection else 0)
        if under_way >= limits.peer_requests_max:
            question.fail(f"{under_way} requests to it are under way")
        elif connection is not None:
            connection.send(question)
        else:
            self._waiting[question] = None
            self._connect_when_allowed()

    def forget(self, question: Question) -> None:
        self._waiting.pop(question, None)

    def time_is_up(self, question: Question, timeout_ms: int) -> None:
        question.fail(f"no answer within {timeout_ms} ms")
        connection = question.connection
        if connection is not None and connection is self._connection and connection.heard_nothing_since(question):
            connection.end(f"it was silent for {timeout_ms} ms")

    def hang_up(self, why: str) -> None:
        self._stop_connecting()
        if self._connection is not None:
            self._drop(self._connection, why)
        self._fail_waiting(why)

    def _move(self, address: tuple[str, int]) -> None:
        """The peer has a new address: the pause after failures at the old one no longer counts."""
        self._address = address
        self._pause_ms = self._paused_until_ms = 0
        self._stop_connecting()
        if self._connection is not None:
            self._drop(self._connection, f"it moved to {address[0]}:{address[1]}")
        if self._waiting:
            self._connect_when_allowed()

    def _drop(self, connection: PeerConnection, why: str) -> None:
        self._connection = None
        connection.end(why)

    # Connecting

    def _connect_when_allowed(self) -> None:
        if self._attempt is not None or self._pause is not None:
            return
        wait_ms = self._paused_until_ms - self._peers.clock.monotonic_ms()
        if wait_ms > 0:
            self._pause = asyncio.get_running_loop().call_later(wait_ms / 1000, self._pause_is_over)
        else:
            self._attempt = self._peers.spawner.spawn(f"connect to node {self._node_id}", self._connect(self._address))

    def _pause_is_over(self) -> None:
        self._pause = None
        self._paused_until_ms = 0
        if self._waiting:
            self._connect_when_allowed()

    async def _connect(self, address: tuple[str, int]) -> None:
        connection = PeerConnection(self._peers, self, address)
        try:
            async with asyncio.timeout(limits.peer_connect_ms_max / 1000):
                await self._peers.net.connect(*address, lambda: connection)
        except CONNECT_ERRORS as refused:
            why = str(refused) or f"no connection within {limits.peer_connect_ms_max} ms"
            if connection is self._connection:
                # The time was up just when the connection was made. uvloop has closed its transport: the next write
                # would raise RuntimeError, and `connection_lost` is never called.
                connection.end(why)
                self._peers.gone(connection)
                return
            self._attempt = None
            self._failed(why)

    def _stop_connecting(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()
            self._attempt = None
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _failed(self, why: str) -> None:
        self._pause_ms = min(max(2 * self._pause_ms, PAUSE_MS_MIN), PAUSE_MS_MAX)
        self._paused_until_ms = self._peers.clock.monotonic_ms() + self._pause_ms
        self._fail_waiting(why)

    def _fail_waiting(self, why: str) -> None:
        waiting, self._waiting = self._waiting, {}
        for question in waiting:
            question.fail(why)

    # What connections tell

    def made(self, connection: PeerConnection) -> None:
        if self._attempt is None or connection.address != self._address:
            # Not waited for when this node stops: uvloop never calls `connection_lost` of a connection that was made
            # just when its attempt was cancelled.
            connection.end("it is no longer needed")
            return
        self._peers.opened(connection)
        self._attempt = None
        self._connection = connection
        waiting, self._waiting = self._waiting, {}
        for question in waiting:
            connection.send(question)

    def answered(self) -> None:
        self._pause_ms = 0

    def over(self, connection: PeerConnection, why: str) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        logger.info("lost the connection to node %d at %s:%d: %s", self._node_id, *connection.address, why)
        if not connection.has_answered:
            # Counts as refused: a peer that accepts and closes again must not be retried without a pause.
            self._failed(why)
        self._peers.on_lost(self._node_id)

    def gone(self, connection: PeerConnection) -> None:
        self._peers.gone(connection)


@functools.cache
def response_class(request: type[Message]) -> type[Message]:
    """A request's table stands in one module with its response's."""
    name = request.__name__.removesuffix("Request") + "Response"
    return cast("type[Message]", getattr(sys.modules[request.__module__], name))
