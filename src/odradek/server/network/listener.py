"""Accepts client connections, holds what they share, closes idle ones, and stops them in an orderly way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from odradek.base import limits
from odradek.base.invariants import InvariantBroken
from odradek.base.ports import Listener, Net
from odradek.server.network.connection import ClientConnection
from odradek.server.network.frames import FramePool
from odradek.server.network.life_cycle import Observer
from odradek.server.network.request import ClientSoftware, Parts

logger = logging.getLogger(__name__)

# Idle time is counted in turns of a sweep, so that a request need not read the clock.
SWEEPS_PER_IDLE_TIME = 8

FrameSink = Callable[[ClientConnection, memoryview, int, int], Parts | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    request_bytes_max: int = limits.request_bytes_max
    idle_ms_max: int = 600_000  # negative: for ever
    unsent_bytes_max: int = limits.connection_unsent_bytes_max
    parked_requests_max: int = limits.connection_parked_requests_max
    partial_requests_bytes_max: int = limits.partial_requests_bytes_max


class ClientListener:
    """Binds first and serves later: a node must know its port before it can register, and register before it serves."""

    def __init__(self, net: Net, bounds: ConnectionLimits) -> None:
        self.net = net
        self.handle: FrameSink = _not_serving
        self.serving = False
        self.request_bytes_min = limits.request_bytes_min
        self.request_bytes_max = bounds.request_bytes_max
        self.unsent_bytes_max = bounds.unsent_bytes_max
        self.parked_requests_max = bounds.parked_requests_max
        # One for all connections of the loop: a read is consumed before the next one starts.
        self.receive_buffer = memoryview(bytearray(limits.receive_buffer_bytes))
        self.frame_pool = FramePool(bounds.partial_requests_bytes_max)
        self.idle_turn = 0
        self._idle_ms_max = bounds.idle_ms_max
        # How many bytes each had not taken at the last sweep.
        self._connections: dict[ClientConnection, int] = {}
        self._listener: Listener | None = None
        self._closed = False
        self._sweep: asyncio.TimerHandle | None = None
        self._all_gone: asyncio.Event = asyncio.Event()
        self.on_lost: Callable[[ClientConnection], None] = lambda _: None
        # Set before the first connection.
        self.observer: Observer | None = None
        # For metrics, since the start.
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections_made = 0
        self.connections_lost = 0
        self.connections_expired = 0

    @property
    def port(self) -> int:
        if self._listener is None:
            raise RuntimeError("not listening")
        return self._listener.port

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def software(self) -> list[ClientSoftware]:
        """The clients of all open connections, as they named themselves."""
        return [connection.software for connection in self._connections]

    async def bind(self, host: str, port: int) -> None:
        """Clients may connect from now on; nothing of theirs is read before `serve`."""
        self._listener = await self.net.listen(host, port, lambda: ClientConnection(self))
        self._schedule_sweep()

    def serve(self, handle: FrameSink) -> None:
        self.handle = handle
        self.serving = True
        for connection in list(self._connections):
            # Not at once: the caller, which starts the node, must not run request handlers.
            asyncio.get_running_loop().call_soon(connection.serve)

    async def stop_accepting(self) -> None:
        """No more connections and no more requests; a connection closes once it has answered those it has."""
        await self._close()
        for connection in list(self._connections):
            connection.end("")

    async def stop(self) -> None:
        """Wait for the last answers, then close what is left."""
        await self.stop_accepting()
        if self._connections:
            self._all_gone.clear()
            try:
                async with asyncio.timeout(limits.connection_close_grace_ms / 1000):
                    await self._all_gone.wait()
            except TimeoutError:
                logger.info("%d connections were closed with requests unanswered", len(self._connections))
        await self.abandon()

    async def abandon(self) -> None:
        """Close everything, whatever is unanswered."""
        await self._close()
        for connection in list(self._connections):
            connection.abort()

    async def _close(self) -> None:
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        if self._listener is not None:
            await self._listener.close()

    def made(self, connection: ClientConnection) -> None:
        self._connections[connection] = 0
        self.connections_made += 1
        if self._closed:
            # Accepted just before the stop: nothing may be read from it any more.
            connection.end("")
        elif self.serving:
            # It may have been accepted before `serve`, which did not see this connection yet.
            connection.serve()

    def lost(self, connection: ClientConnection) -> None:
        del self._connections[connection]
        self.connections_lost += 1
        if not self._connections:
            self._all_gone.set()
        self.on_lost(connection)

    def _schedule_sweep(self) -> None:
        if self._idle_ms_max >= 0:
            interval_s = max(self._idle_ms_max, SWEEPS_PER_IDLE_TIME) / 1000 / SWEEPS_PER_IDLE_TIME
            self._sweep = asyncio.get_running_loop().call_later(interval_s, self._close_idle)

    def _close_idle(self) -> None:
        self.idle_turn += 1
        for connection, unsent_before in list(self._connections.items()):
            unsent = connection.unsent_bytes()
            if unsent != unsent_before:
                # The client takes a reply, however slowly.
                self._connections[connection] = unsent
                connection.last_turn = self.idle_turn
            if self.idle_turn - connection.last_turn > SWEEPS_PER_IDLE_TIME:
                self.connections_expired += 1
                connection.abort()
        self._schedule_sweep()


def _not_serving(_connection: ClientConnection, _frame: memoryview, _position: int, _end: int) -> Parts | None:
    raise InvariantBroken("a frame was read before the listener served")
