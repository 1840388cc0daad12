"""One end of a simulated connection, and the Link port on it.

Whatever an end sends (pieces, acknowledgements, the end of the stream) travels as packets. Behind a wall they are kept
and sent again when it falls, as TCP does: a cut network delays, it does not reorder or lose.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from odradek.base.ports import ByteSource, ProtocolFactory, Region

if TYPE_CHECKING:
    from odradek.sim.loop import Host
    from odradek.sim.net import SimNet


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
        # No piece sent by this end arrives earlier than the previous piece.
        self.not_before_ns = 0
        # Packets held back by a wall.
        self._held: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._reset_is_held = False

    def open(self, factory: ProtocolFactory, address: tuple[str, int]) -> None:
        self._address = address
        with self._loop.on(self.host):
            self._protocol = factory()
            self._loop.call_soon(self._protocol.connection_made, self)

    # Packets

    def _send_packet(self, arrives: Callable[..., object], *args: Any) -> None:
        """`arrives` is a method of the peer."""
        if self._held or self._net.is_walled(self.host, self.peer.host):
            self._held.append((arrives, args))
            return
        arrival_ns = self._net.arrival_ns(self.not_before_ns, self.host, self.peer.host)
        self.not_before_ns = arrival_ns
        self._loop.call_at_ns(arrival_ns, self.peer.host, arrives, *args)

    def _acknowledge(self, length: int) -> None:
        """Acknowledgements and pieces do not wait for each other."""
        if self._held or self._net.is_walled(self.host, self.peer.host):
            self._held.append((self.peer._piece_was_read, (length,)))
            return
        arrival_ns = self._net.arrival_ns(0, self.host, self.peer.host)
        self._loop.call_at_ns(arrival_ns, self.peer.host, self.peer._piece_was_read, length)

    def wall_fell(self) -> None:
        """One network partition healed. Another one may still separate the two hosts."""
        if self._net.is_walled(self.host, self.peer.host):
            return
        held, self._held = self._held, deque()
        if self.host.alive:
            for arrives, args in held:
                self._send_packet(arrives, *args)
        if self.peer._reset_is_held:
            self.peer._reset_is_held = False
            self.peer.reset_arrives()

    def reset_arrives(self) -> None:
        """The other end, or the machine it was on, says that there is no such connection."""
        if self.lost or self._deaf:
            return
        if self._net.is_walled(self.peer.host, self.host):
            self._reset_is_held = True
            return
        self.break_off()

    def break_off(self) -> None:
        """From now on neither sees what the other sends; each learns of it in its own time."""
        if self.lost or self._deaf:
            return
        self._deaf = True
        self._loop.call_at_ns(
            self._net.arrival_ns(0, self.peer.host, self.host),
            self.host,
            self._lose,
            ConnectionResetError(104, "connection reset"),
        )

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
            self._send_packet(self.peer._piece_arrives, piece)
        if self._closing and not self._unsent and not self._fin_sent:
            self._fin_sent = True
            self._send_packet(self.peer._fin_arrives)

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
            self._acknowledge(len(piece))
        if self._fin_arrived and not self._arrived and not self._closing and not self._protocol.eof_received():
            self.close()

    def _fin_arrives(self) -> None:
        if not self._deaf:
            self._fin_arrived = True
            self._deliver()

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
            self._queued_bytes += len(part)
        self.pump()

    def pump(self) -> None:
        while self._queue and not self._transport.get_write_buffer_size():
            part = self._queue.popleft()
            self._queued_bytes -= len(part)
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
