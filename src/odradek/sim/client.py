"""One connection of a simulated client: requests out, replies back in the same order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, TypeVar, cast

from odradek.protocol.schema import Message
from odradek.sim.loop import Host, SimulationFailed
from odradek.sim.net import SimNet

M = TypeVar("M", bound=Message)

_int32 = Struct(">i")
_request_header = Struct(">hhi")
_API_VERSIONS = 18

Address = tuple[str, int]


class BrokerConnection(asyncio.BufferedProtocol):
    """`incarnation` is the node's at the time of connecting: all replies on it come from that incarnation."""

    def __init__(self, client_id: str, address: Address, incarnation: int) -> None:
        self._client_id = client_id.encode()
        self.address = address
        self.incarnation = incarnation
        self._received = bytearray()
        self._buffer = bytearray(65_536)
        self._correlation_id = 0
        self._waiting: deque[tuple[int, Callable[[bytes], Message], asyncio.Future[Any]]] = deque()
        self._transport: asyncio.Transport | None = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._received += memoryview(self._buffer)[:nbytes]
        while len(self._received) >= 4:
            (length,) = _int32.unpack_from(self._received)
            if len(self._received) < 4 + length:
                return
            reply = bytes(self._received[4 : 4 + length])
            del self._received[: 4 + length]
            self._take_reply(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost = True
        while self._waiting:
            future = self._waiting.popleft()[2]
            if not future.done():
                _lose(future)

    def send(self, request: Message, version: int, answer: type[M]) -> asyncio.Future[M]:
        """Any number may be under way. The future fails with ConnectionResetError when the connection does."""
        future: asyncio.Future[M] = asyncio.get_running_loop().create_future()
        if self.lost or self._transport is None:
            _lose(future)
            return future
        self._correlation_id += 1
        flexible = request.is_flexible(version)
        header_bytes = 4
        if answer.is_flexible(version) and request.KEY != _API_VERSIONS:
            header_bytes += 1
        frame = (
            _request_header.pack(request.KEY, version, self._correlation_id)
            + len(self._client_id).to_bytes(2, "big")
            + self._client_id
            + (b"\0" if flexible else b"")
            + request.encode(version)
        )
        self._waiting.append((self._correlation_id, lambda reply: answer.decode(reply, version, header_bytes), future))
        self._transport.write(_int32.pack(len(frame)) + frame)
        return future

    async def ask(self, request: Message, version: int, answer: type[M], timeout_s: float = 5.0) -> M:
        future = self.send(request, version, answer)
        async with asyncio.timeout(timeout_s):
            return await future

    def close(self) -> None:
        """Bytes in flight still arrive at the broker: a retry on another connection may overtake them."""
        if self._transport is not None:
            self._transport.close()

    def _take_reply(self, reply: bytes) -> None:
        (correlation_id,) = _int32.unpack_from(reply)
        if not self._waiting:
            raise SimulationFailed(f"a reply with correlation id {correlation_id}, but no request is under way")
        expected, decode, future = self._waiting.popleft()
        if correlation_id != expected:
            raise SimulationFailed(f"the reply to request {expected} has correlation id {correlation_id}")
        answer = decode(reply)
        if not future.done():
            future.set_result(answer)


def _lose(future: asyncio.Future[Any]) -> None:
    future.set_exception(ConnectionResetError("the connection was lost"))
    # A client that pipelines may no longer wait for it: mark the exception as retrieved.
    future.exception()


class ClientHost:
    """A machine with a client on it. `incarnation` says which boot of the machine at an address this is."""

    def __init__(
        self, net: SimNet, host: Host, bootstrap: tuple[Address, ...], incarnation: Callable[[Address], int]
    ) -> None:
        self._net = net.of(host)
        self.bootstrap = bootstrap
        self._incarnation = incarnation
        self.host = host
        # The newest leader epoch heard of, by topic id and partition.
        self.newest_epochs: dict[tuple[bytes, int], int] = {}

    async def connect(self, address: Address) -> BrokerConnection:
        """Raises ConnectionError when there is no listener, TimeoutError when there is no answer."""
        made: list[BrokerConnection] = []

        def make() -> BrokerConnection:
            # Called when the listener was found: the incarnation of now, not of the time of the call.
            made.append(BrokerConnection(self.host.name, address, self._incarnation(address)))
            return made[-1]

        await self._net.connect(*address, make)
        await asyncio.sleep(0)
        return made[-1]
