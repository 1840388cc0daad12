"""TCP on asyncio or uvloop, with file regions sent straight from the page cache.

Measured (see the benchmark): below ~100 KB a `pread` joined to the reply is cheaper than `sendfile`, above it the
reverse. `loop.sendfile` is missing in uvloop and slow in asyncio, so the link calls it on the descriptor itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from time import monotonic_ns

from odradek.base.limits import KIB, MIB
from odradek.base.ports import Link, Listener, ProtocolFactory, Region

logger = logging.getLogger(__name__)

SENDFILE_BYTES_MIN = 100 * KIB
# The bytes that one link may send before other connections get their turn.
TURN_BYTES_MAX = 4 * MIB
READ_AHEAD_BYTES = MIB
COLD_SEND_NS = 1_000_000  # a send from memory takes a tenth of this
# create_server's default is 100: many reconnecting clients would run into SYN retries.
BACKLOG = 4096


class TcpListener:
    __slots__ = ("_server",)

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        self._server.close()


class SocketLink:
    """The write half of a TCP connection.

    Small parts go through the transport, large Regions through `sendfile`. Only one of the two is active at a time, so
    the order holds. The protocol's `pause_writing` and `resume_writing` cover both: data is unsent, all is sent.
    """

    __slots__ = ("_loop", "_queue", "_queued_bytes", "_socket_fd", "_transport", "_writer_fd")

    def __init__(self, transport: asyncio.Transport) -> None:
        # With a high-water mark of 0, resume_writing means that the transport's buffer is empty.
        transport.set_write_buffer_limits(high=0)
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._socket_fd: int = transport.get_extra_info("socket").fileno()
        self._queue: list[bytes | Region] = []
        self._queued_bytes = 0
        # Event loops refuse to watch a transport's descriptor, but watch a duplicate of it. -1: not watching.
        self._writer_fd = -1

    def send(self, parts: Sequence[bytes | bytearray | Region]) -> None:
        run: list[bytes | bytearray] = []
        for position, part in enumerate(parts):
            if not isinstance(part, Region):
                run.append(part)
            elif part.length < SENDFILE_BYTES_MIN or part.file.fileno() < 0:
                try:
                    run.append(_content(part))
                except OSError as broken:
                    _release(parts[position + 1 :])
                    self._give_up(str(broken))
                    return
            else:
                if run:
                    self._enqueue(b"".join(run), sum(map(len, run)))
                    run = []
                self._enqueue(part, part.length)
        if not self._queue:
            self._transport.write(run[0] if len(run) == 1 else b"".join(run))
            return
        if run:
            self._enqueue(b"".join(run), sum(map(len, run)))
        self.pump()

    def pump(self) -> None:
        if self._transport.is_closing():
            # Part of a frame may be missing: no other frame may follow it.
            self.lost()
        if self._writer_fd < 0 and self._queue:
            self._send_queue()
            if self._queue:
                self._protocol().pause_writing()

    def unsent_bytes(self) -> int:
        return self._queued_bytes + self._transport.get_write_buffer_size()

    def lost(self) -> None:
        self._stop_watching()
        _release(self._queue)
        self._queue.clear()
        self._queued_bytes = 0

    def _enqueue(self, part: bytes | Region, length: int) -> None:
        self._queue.append(part)
        self._queued_bytes += length

    def _send_queue(self) -> None:
        """Sends until the queue is empty, the socket is full, or the transport has unsent data (see resume_writing)."""
        turn_bytes = 0
        while self._queue:
            part = self._queue[0]
            if isinstance(part, bytes):
                del self._queue[0]
                self._queued_bytes -= len(part)
                self._transport.write(part)
                continue
            if self._transport.get_write_buffer_size():
                return
            begun_ns = monotonic_ns()
            try:
                sent = os.sendfile(self._socket_fd, part.file.fileno(), part.position, part.length)
            except BlockingIOError:
                self._watch()
                return
            except OSError as broken:
                self._give_up(f"sendfile failed: {broken}")
                return
            if sent == 0:
                self._give_up(f"{part.file.path} ends before byte {part.position} of a region promised to a client")
                return
            self._queued_bytes -= sent
            turn_bytes += sent
            if sent == part.length:
                del self._queue[0]
                if monotonic_ns() - begun_ns > COLD_SEND_NS:
                    _read_ahead(part.file.fileno(), part.position + sent)
                part.release()
            else:
                part.position += sent
                part.length -= sent
            if turn_bytes >= TURN_BYTES_MAX and self._queue:
                self._watch()
                return

    def _watch(self) -> None:
        if self._writer_fd < 0:
            try:
                self._writer_fd = os.dup(self._socket_fd)
            except OSError as broken:
                self._give_up(f"no descriptor to wait with: {broken}")
                return
            self._loop.add_writer(self._writer_fd, self._writable)

    def _stop_watching(self) -> None:
        if self._writer_fd >= 0:
            self._loop.remove_writer(self._writer_fd)
            os.close(self._writer_fd)
            self._writer_fd = -1

    def _writable(self) -> None:
        self._send_queue()
        if not self._queue:
            self._stop_watching()
            if not self._transport.get_write_buffer_size():
                self._protocol().resume_writing()
        elif self._transport.get_write_buffer_size():
            self._stop_watching()

    def _give_up(self, why: str) -> None:
        logger.info("closing a connection: %s", why)
        self.lost()
        self._transport.abort()

    def _protocol(self) -> asyncio.BaseProtocol:
        return self._transport.get_protocol()


def _read_ahead(fd: int, position: int) -> None:
    """Starts reading the following data from disk, because the next send would block the event loop.

    Only after a send that waited for the disk: if the data is in memory, the call would cost a twentieth of the send.
    """
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, position, READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)


def _content(region: Region) -> bytes:
    try:
        content = region.read()
    finally:
        region.release()
    if len(content) != region.length:
        raise OSError(f"{region.file.path} ends inside a region promised to a client")
    return content


def _release(parts: Sequence[bytes | bytearray | Region]) -> None:
    for part in parts:
        if isinstance(part, Region):
            part.release()


class TcpNet:
    __slots__ = ()

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        loop = asyncio.get_running_loop()
        return TcpListener(await loop.create_server(factory, host, port, backlog=BACKLOG, reuse_address=True))

    async def connect(self, host: str, port: int, factory: ProtocolFactory) -> None:
        await asyncio.get_running_loop().create_connection(factory, host, port)

    def link(self, transport: asyncio.Transport) -> Link:
        return SocketLink(transport)
