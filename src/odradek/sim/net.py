"""A network between hosts: streams of bytes with delays, odd cuts, resets, clogs and silence.

One direction of a connection delivers its bytes in order, always: that is TCP's promise, not the scheduler's choice.
Everything else is open: how many pieces a write arrives in, when, and whether the other end is still there. A machine
that lost power says nothing (half-open); a killed process resets its peers; a machine that came back resets those who
still believe in the old connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from zlib import crc32

from odradek.base.ports import ByteSource, ProtocolFactory, Region
from odradek.sim.loop import Host, SimLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class NetKnobs:
    delay_min_us: int = 50
    delay_mean_us: int = 500
    # Arrival times are rounded up to this, so that events coincide.
    quantum_us: int = 1
    # The largest piece that arrives at once.
    piece_bytes_max: int = 65_536
    # Bytes in flight before the sender has to wait.
    window_bytes: int = 65_536
    # Per piece: this one is late, and so is everything behind it.
    straggle: float = 0.0
    straggle_ms_max: int = 2_000


class SimNet:
    """All machines' network. `of(host)` gives one host its Net port."""

    def __init__(self, loop: SimLoop, rng: Random, knobs: NetKnobs) -> None:
        self.loop = loop
        self.rng = rng
        self.knobs = knobs
        self.listeners: dict[tuple[str, int], _Listener] = {}
        self.connections: list[_Connection] = []
        self.faults = {"connection reset": 0, "clog": 0, "half-open connection": 0, "refused connection": 0}
        self._ports_given = 0

    def of(self, host: Host) -> HostNet:
        return HostNet(self, host)

    def delay_ns(self) -> int:
        knobs = self.knobs
        # Both draws happen whether or not the piece straggles, so that the knob does not shift later draws.
        delay_us = knobs.delay_min_us + self.rng.expovariate(1.0) * knobs.delay_mean_us
        straggles = self.rng.random() < knobs.straggle
        late_us = self.rng.randrange(knobs.straggle_ms_max * 1000)
        if straggles:
            delay_us += late_us
        return int(delay_us) * 1000

    def arrival_ns(self, not_before_ns: int) -> int:
        quantum_ns = self.knobs.quantum_us * 1000
        arrival = max(not_before_ns, self.loop.now_ns + self.delay_ns())
        return -(-arrival // quantum_ns) * quantum_ns

    # Faults

    def living(self) -> list[_Connection]:
        self.connections = [connection for connection in self.connections if not connection.over()]
        return self.connections

    def reset_one(self) -> bool:
        """A middlebox forgets one connection: what was in flight is lost, each end hears of it in its own time."""
        living = self.living()
        if not living:
            return False
        self.rng.choice(living).reset()
        self.faults["connection reset"] += 1
        return True

    def clog(self, host: Host, duration_ns: int) -> None:
        """Nothing reaches or leaves the host for a while; all of it comes afterwards."""
        self.faults["clog"] += 1
        until = self.loop.now_ns + duration_ns
        for connection in self.living():
            if any(end.host is host for end in connection.ends):
                for end in connection.ends:
                    end.not_before_ns = max(end.not_before_ns, until)

    def host_lost_power(self, host: Host) -> None:
        """No last packet: peers are left with half-open connections."""
        self._forget_listeners(host)
        for connection in self.living():
            if any(end.host is host for end in connection.ends):
                self.faults["half-open connection"] += 1

    def host_killed(self, host: Host) -> None:
        """The kernel closes the process's sockets; their peers see a reset."""
        self._forget_listeners(host)
        for connection in self.living():
            if any(end.host is host for end in connection.ends):
                connection.reset()

    def host_returned(self, dead: Host) -> None:
        """The machine is up again and knows none of the old connections: it answers their packets with resets."""
        self.host_killed(dead)

    def _forget_listeners(self, host: Host) -> None:
        for address in [address for address, listener in self.listeners.items() if listener.host is host]:
            del self.listeners[address]

    def free_port(self) -> int:
        self._ports_given += 1
        return 40_000 + self._ports_given


class HostNet:
    """The Net port of one host."""

    def __init__(self, net: SimNet, host: Host) -> None:
        self._net = net
        self._host = host

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> _Listener:
        listener = _Listener(self._net, self._host, host, port or self._net.free_port(), factory)
        if (host, listener.port) in self._net.listeners:
            raise OSError(98, "address already in use")
        self._net.listeners[host, listener.port] = listener
        return listener

    async def connect(self, host: str, port: int, factory: ProtocolFactory) -> None:
        net = self._net
        await _until(net, net.arrival_ns(0))
        listener = net.listeners.get((host, port))
        if listener is None or not listener.host.alive:
            net.faults["refused connection"] += 1
            raise ConnectionRefusedError(111, f"nobody listens on {host}:{port}")
        connection = _Connection(net, self._host, listener.host)
        net.connections.append(connection)
        client, server = connection.ends
        server.open(listener.factory, (host, port))
        client.open(factory, (host, port))

    def link(self, transport: asyncio.Transport) -> SimLink:
        if not isinstance(transport, SimTransport):
            raise TypeError(f"{transport!r} is not of this network")
        return SimLink(transport)


async def _until(net: SimNet, when_ns: int) -> None:
    arrived = net.loop.create_future()
    net.loop.call_at_ns(when_ns, net.loop.current, _set_unless_done, arrived)
    await arrived


def _set_unless_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Listener:
    def __init__(self, net: SimNet, owner: Host, address: str, port: int, factory: ProtocolFactory) -> None:
        self._net = net
        self._address = address
        self.host = owner
        self.port = port
        self.factory = factory

    async def close(self) -> None:
        self._net.listeners.pop((self._address, self.port), None)


class _Connection:
    def __init__(self, net: SimNet, client: Host, server: Host) -> None:
        self.ends = (SimTransport(net, client), SimTransport(net, server))
        self.ends[0].peer, self.ends[1].peer = self.ends[1], self.ends[0]

    def over(self) -> bool:
        return all(end.lost or not end.host.alive for end in self.ends)

    def reset(self) -> None:
        for end in self.ends:
            end.reset_arrives()


class SimTransport(asyncio.Transport):
    """One end of a connection. Bytes written here are queued, sent piece by piece, delivered to the peer's protocol."""

    peer: SimTransport

    def __init__(self, net: SimNet, host: Host) -> None:
        super().__init__()
        self._net = net
        self._loop = net.loop
        self.host = host
        self._protocol: Any = None
        self._address: tuple[str, int] = ("", 0)
        self._unsent = bytearray()
        self._in_flight = 0
        self._high_water = 65_536
        self._writing_paused = False
        self._reading_paused = False
        self._arrived: deque[bytes] = deque()
        self._closing = False
        self._fin_sent = False
        self._fin_arrived = False
        self._deaf = False
        self.lost = False
        # No piece sent by this end arrives earlier than the one before it.
        self.not_before_ns = 0

    def open(self, factory: ProtocolFactory, address: tuple[str, int]) -> None:
        self._address = address
        with self._loop.on(self.host):
            self._protocol = factory()
            self._loop.call_soon(self._protocol.connection_made, self)

    # The sending half

    def write(self, data: ByteSource) -> None:
        if self._closing or self.lost or not self.host.alive:
            return
        self._unsent += data
        self._send_pieces()
        if not self._writing_paused and self.get_write_buffer_size() > self._high_water:
            self._writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def _send_pieces(self) -> None:
        net = self._net
        while self._unsent and self._in_flight < net.knobs.window_bytes:
            limit = min(len(self._unsent), net.knobs.piece_bytes_max, net.knobs.window_bytes - self._in_flight)
            # Half of the time whole, half of the time cut at any byte.
            length = limit if net.rng.random() < 0.5 else net.rng.randrange(limit) + 1
            piece = bytes(self._unsent[:length])
            del self._unsent[:length]
            self._in_flight += length
            self.not_before_ns = net.arrival_ns(self.not_before_ns)
            self._loop.call_at_ns(self.not_before_ns, self.peer.host, self.peer._piece_arrives, piece)
        if self._closing and not self._unsent and not self._fin_sent:
            self._fin_sent = True
            self.not_before_ns = net.arrival_ns(self.not_before_ns)
            self._loop.call_at_ns(self.not_before_ns, self.peer.host, self.peer._fin_arrives)

    def _piece_was_read(self, length: int) -> None:
        self._in_flight -= length
        if self.lost:
            return
        self._send_pieces()
        if self._closing:
            self._close_when_sent()
        elif self._writing_paused and self.get_write_buffer_size() <= self._high_water // 4:
            self._writing_paused = False
            self._protocol.resume_writing()

    # The receiving half

    def _piece_arrives(self, piece: bytes) -> None:
        if self._deaf or self.lost:
            return
        self._loop.note(f"{len(piece)} bytes {crc32(piece):08x}")
        self._arrived.append(piece)
        self._deliver()

    def _deliver(self) -> None:
        while self._arrived and not self._reading_paused and not self._closing:
            piece = self._arrived.popleft()
            rest = memoryview(piece)
            while rest and not self._closing:
                buffer = memoryview(self._protocol.get_buffer(len(rest)))
                taken = min(len(buffer), len(rest))
                buffer[:taken] = rest[:taken]
                rest = rest[taken:]
                self._protocol.buffer_updated(taken)
            self._loop.call_at_ns(self._net.arrival_ns(0), self.peer.host, self.peer._piece_was_read, len(piece))
        if self._fin_arrived and not self._arrived and not self._closing and not self._protocol.eof_received():
            self.close()

    def _fin_arrives(self) -> None:
        if not self._deaf:
            self._fin_arrived = True
            self._deliver()

    def reset_arrives(self) -> None:
        if self.lost or self._deaf:
            return
        # From now on neither sees what the other sends; each learns of it in its own time.
        self._deaf = True
        self._loop.call_at_ns(
            self._net.arrival_ns(0), self.host, self._lose, ConnectionResetError(104, "connection reset")
        )

    def _lose(self, reason: Exception | None) -> None:
        if not self.lost:
            self.lost = True
            self._closing = True
            self._unsent.clear()
            self._protocol.connection_lost(reason)

    # asyncio.Transport

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._send_pieces()
        with self._loop.on(self.host):
            self._loop.call_soon(self._close_when_sent)

    def _close_when_sent(self) -> None:
        if not self._unsent:
            self._lose(None)

    def abort(self) -> None:
        self._closing = True
        self._unsent.clear()
        with self._loop.on(self.host):
            self._loop.call_soon(self._lose, None)
        self.peer.reset_arrives()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            with self._loop.on(self.host):
                self._loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._address if name in ("peername", "sockname") else default

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del low
        self._high_water = 65_536 if high is None else high

    def can_write_eof(self) -> bool:
        return False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol


class SimLink:
    """Copies a Region when its turn comes, not when it is queued: a segment removed meanwhile must still be pinned."""

    def __init__(self, transport: SimTransport) -> None:
        # With a high mark of 0, resume_writing means that nothing is left in the transport.
        transport.set_write_buffer_limits(high=0)
        self._transport = transport
        self._queue: deque[bytes | bytearray | Region] = deque()
        self._queued_bytes = 0

    def send(self, parts: Sequence[bytes | bytearray | Region]) -> None:
        for part in parts:
            self._queue.append(part)
            self._queued_bytes += _length(part)
        self.pump()

    def pump(self) -> None:
        while self._queue and not self._transport.get_write_buffer_size():
            part = self._queue.popleft()
            self._queued_bytes -= _length(part)
            if isinstance(part, Region):
                self._transport.write(part.read())
                part.release()
            else:
                self._transport.write(part)

    def unsent_bytes(self) -> int:
        return self._queued_bytes + self._transport.get_write_buffer_size()

    def lost(self) -> None:
        while self._queue:
            part = self._queue.popleft()
            if isinstance(part, Region):
                part.release()
        self._queued_bytes = 0


def _length(part: bytes | bytearray | Region) -> int:
    return part.length if isinstance(part, Region) else len(part)
