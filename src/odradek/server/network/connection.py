"""One client connection: frames in, replies out in the order of the requests.

Requests are handled synchronously as their bytes arrive; the replies of one read leave in one write. A request that
cannot be answered yet takes a slot in the reply order. Reading stops while a request is parked that must be answered
(Fetch) or appended (Produce that waits for a thread) first, while too many are parked, and while the client does not
take its replies. An idle connection owns no buffer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, cast

from odradek.base.limits import KIB, MIB
from odradek.base.ports import Link, Region
from odradek.server.network.frames import LARGEST_POOLED, PartialFrame
from odradek.server.network.request import UNKNOWN_SOFTWARE, Parts, RequestContext

if TYPE_CHECKING:
    from odradek.server.network.life_cycle import ObservedApi, Observer
    from odradek.server.network.listener import ClientListener

logger = logging.getLogger(__name__)

_length_at = Struct(">i").unpack_from

# Replies of one read leave together, unless they are large.
FLUSH_BYTES = 64 * KIB
# Why a connection reads nothing more for now, as bits.
PARKED, UNSENT, ENDING, EARLY = 1, 2, 4, 8


class Slot:
    """The place of one parked request in its connection's reply order."""

    __slots__ = ("_connection", "is_measured", "on_lost", "parts", "request")

    def __init__(self, connection: ClientConnection, on_lost: Callable[[], None] | None) -> None:
        self._connection = connection
        self.request = connection.request
        self.is_measured = connection.is_measuring
        self.on_lost = on_lost
        self.parts: Parts | None = None

    def fill(self, parts: Parts) -> None:
        self.parts = parts
        self._connection.slot_filled(self)

    def let_pass(self) -> None:
        self._connection.pass_slot(self)


class ClientConnection(asyncio.BufferedProtocol):
    __slots__ = (
        "_backlog",
        "_blocker",
        "_choked",
        "_flush_due",
        "_frame",
        "_in_turn",
        "_leaving",
        "_link",
        "_listener",
        "_lost",
        "_out",
        "_out_bytes",
        "_prefix",
        "_reading",
        "_received_ns",
        "_replies",
        "_stopped",
        "_transport",
        "client_host",
        "client_port",
        "is_measuring",
        "last_turn",
        "observer",
        "principal",
        "request",
        "software",
    )

    def __init__(self, listener: ClientListener) -> None:
        self._listener = listener
        self.client_host = ""
        self.client_port = 0
        self.software = UNKNOWN_SOFTWARE
        self.principal = "User:ANONYMOUS"
        self.request: RequestContext | None = None
        self.observer: Observer | None = listener.observer
        # Whether the request that is being handled is measured.
        self.is_measuring = False
        self._received_ns = 0
        # Measured requests whose replies are in `_out`.
        self._leaving: list[RequestContext] = []
        # When something last arrived, in turns of the listener's idle sweep.
        self.last_turn = listener.idle_turn
        # The first bytes of a length that a read cut in two.
        self._prefix = b""
        self._frame: PartialFrame | None = None
        # Requests that were received and are not handled while reading is stopped.
        self._backlog: memoryview | None = None
        # Requests not yet answered and replies waiting behind them, in request order; the first is never filled.
        self._replies: list[Slot] = []
        # The parked request behind which nothing may be read.
        self._blocker: Slot | None = None
        self._out: Parts = []
        self._out_bytes = 0
        self._flush_due = False
        self._in_turn = False
        self._stopped = 0 if listener.serving else EARLY
        self._reading = True
        self._choked = False
        self._lost = False

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._link: Link = self._listener.net.link(self._transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.client_host, self.client_port = peer[:2]
        self._listener.made(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._lost = True
        self._stopped = ENDING
        self._link.lost()
        self._listener.lost(self)
        self._backlog = None
        if self._frame is not None:
            self._frame.release()
            self._frame = None
        replies, self._replies = self._replies, []
        for slot in replies:
            if slot.parts is not None:
                _release(slot.parts)
            elif slot.on_lost is not None:
                slot.on_lost()
            if slot.is_measured and self.observer is not None and slot.request is not None:
                self.observer.lost(slot.request, slot.parts)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        if self._frame is not None:
            return self._frame.room()
        received = self._listener.receive_buffer
        split = len(self._prefix)
        if split:
            received[:split] = self._prefix
            return received[split:]
        return received

    def buffer_updated(self, nbytes: int) -> None:
        listener = self._listener
        self.last_turn = listener.idle_turn
        listener.bytes_in += nbytes
        self._in_turn = True
        if self.observer is not None:
            self._received_ns = self.observer.now_ns()
        frame = self._frame
        if frame is None:
            end = len(self._prefix) + nbytes
            self._prefix = b""
            self._take(listener.receive_buffer, 0, end, shared=True)
        else:
            frame.filled += nbytes
            if frame.filled == frame.length:
                self._frame = None
                self._handle(frame.view, 0, frame.length)
                frame.release()
            elif not frame.has_room():
                self._end_for_others()
        self._in_turn = False
        if self._out or self._leaving:
            self._flush()
        if self._stopped or not self._reading:
            self._settle()

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        self._link.pump()
        if not self._choked:
            self._go(UNSENT)

    # What handlers call

    def park(self, *, stop_reading: bool, on_lost: Callable[[], None] | None = None) -> Slot:
        slot = Slot(self, on_lost)
        self._replies.append(slot)
        if stop_reading:
            self._blocker = slot
        if stop_reading or len(self._replies) >= self._listener.parked_requests_max:
            self._stop(PARKED)
        return slot

    def end(self, why: str) -> None:
        if why:
            logger.info("closing the connection of %s: %s", self.client_host, why)
        self._stop(ENDING)

    def pass_slot(self, slot: Slot) -> None:
        if slot is self._blocker:
            self._blocker = None
            self._go_unless_parked()

    def slot_filled(self, slot: Slot) -> None:
        if self._lost:
            _release(slot.parts or [])
            return
        if self.observer is not None and slot.request is not None:
            self.observer.answered_late(slot.request)
            if slot.is_measured:
                self.observer.answered(slot.request, slot.parts or [])
        ready = 0
        for reply in self._replies:
            if reply.parts is None:
                break
            self._out += reply.parts
            self._out_bytes += sum(map(len, reply.parts))
            if reply.is_measured and reply.request is not None:
                self._leaving.append(reply.request)
            ready += 1
        del self._replies[:ready]
        if slot is self._blocker:
            self._blocker = None
        if not self._in_turn and (self._out or self._leaving):
            if self._replies:
                self._flush_soon()
            else:
                self._flush()
        self._go_unless_parked()

    def measure(self, request: RequestContext, api: ObservedApi, size: int) -> None:
        stands_for = api.take()
        # A request that a test delays is handled outside of a turn. Its times are not the broker's.
        if self._in_turn and self.observer is not None:
            self.is_measuring = True
            request.stands_for = stands_for
            request.bytes_in = size
            request.received_ns = self._received_ns
            request.handled_ns = self.observer.now_ns()

    # What the listener calls

    def serve(self) -> None:
        self._go(EARLY)

    def unsent_bytes(self) -> int:
        return self._link.unsent_bytes()

    def abort(self) -> None:
        self._transport.abort()

    # Requests

    def _take(self, received: memoryview, position: int, end: int, *, shared: bool) -> None:
        """Handle every whole request in received[position:end] and keep the rest.

        A connection made before the listener serves gets here once, EARLY, and is paused afterwards: uvloop begins to
        read after `connection_made`, so a pause in there would not last.
        """
        while end - position >= 4 and not self._stopped:
            (length,) = _length_at(received, position)
            if not self._listener.request_bytes_min <= length <= self._listener.request_bytes_max:
                bounds = f"{self._listener.request_bytes_min} to {self._listener.request_bytes_max}"
                self.end(f"a request has {length} bytes, {bounds} are allowed (socket.request.max.bytes)")
                return
            start = position + 4
            position = start + length
            if position > end:
                if not self._listener.frame_pool.has_room(min(length, LARGEST_POOLED)):
                    self._end_for_others()
                    return
                self._frame = PartialFrame(self._listener.frame_pool, length, received[start:end])
                return
            self._handle(received, start, position)
        if position == end or self._stopped & ENDING:
            return
        if self._stopped:
            rest = received[position:end]
            # Handlers write into their frame, so a copy has to be writable too.
            self._backlog = memoryview(bytearray(rest)) if shared else rest
        else:
            self._prefix = bytes(received[position:end])

    def _end_for_others(self) -> None:
        held = self._listener.frame_pool.bytes_in_use // MIB
        self.end(f"incomplete requests already take {held} MiB: send smaller requests, or fewer at once")

    def _handle(self, frame: memoryview, position: int, end: int) -> None:
        parts = self._listener.handle(self, frame, position, end)
        if self.is_measuring:
            self._measured(parts)
        elif not parts:
            return
        elif self._replies:
            self.park(stop_reading=False).parts = parts
        else:
            self._out += parts
            self._out_bytes += sum(map(len, parts))
        if self._out_bytes >= FLUSH_BYTES:
            # Let the limit on unsent bytes see it before the next request is handled.
            self._flush()

    def _measured(self, parts: Parts | None) -> None:
        """The handler of the measured request returned."""
        if self.observer is not None and self.request is not None:
            self.observer.returned(self.request, parts)
            if parts and self._replies:
                self.park(stop_reading=False).parts = parts
            elif parts:
                self._out += parts
                self._out_bytes += sum(map(len, parts))
                self._leaving.append(self.request)
        self.is_measuring = False

    # Replies

    def _flush_soon(self) -> None:
        """A commit often answers several requests: what is filled in one turn of the loop leaves in one write."""
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_due = False
        if self._out or self._leaving:
            self._flush()

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._lost:
            self._out_bytes = 0
            _release(out)
            self._end_leaving(0)
            return
        self._listener.bytes_out += self._out_bytes
        self._out_bytes = 0
        sending_ns = self.observer.now_ns() if self._leaving and self.observer is not None else 0
        if out:
            self._link.send(out)
        if self._leaving:
            self._end_leaving(sending_ns)
        if self._choked and self._link.unsent_bytes() > self._listener.unsent_bytes_max:
            self._stop(UNSENT)

    def _end_leaving(self, sending_ns: int) -> None:
        ended, self._leaving = self._leaving, []
        for request in ended:
            # A parked reply was answered in the same turn, perhaps after others began to be sent.
            cast("Observer", self.observer).ended(request, max(sending_ns, request.answered_ns))

    # Reading or not

    def _stop(self, why: int) -> None:
        self._stopped |= why
        if not self._in_turn:
            self._settle()

    def _go(self, why: int) -> None:
        self._stopped &= ~why
        if not self._in_turn:
            self._settle()

    def _go_unless_parked(self) -> None:
        if self._blocker is None and len(self._replies) < self._listener.parked_requests_max:
            self._go(PARKED)

    def _settle(self) -> None:
        """Outside a turn: go on with the backlog, then make the transport read or not, or close it."""
        if self._lost:
            return
        while self._backlog is not None and not self._stopped:
            backlog, self._backlog = self._backlog, None
            self._in_turn = True
            self._take(backlog, 0, len(backlog), shared=False)
            self._in_turn = False
            if self._out or self._leaving:
                self._flush()
        if self._stopped & ENDING and not self._replies and not self._link.unsent_bytes():
            self._transport.close()
        elif self._reading and self._stopped:
            self._reading = False
            self._transport.pause_reading()
        elif not self._reading and not self._stopped:
            self._reading = True
            self._transport.resume_reading()


def _release(parts: Parts) -> None:
    for part in parts:
        if isinstance(part, Region):
            part.release()
