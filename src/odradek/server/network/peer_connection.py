"""One connection to another node: requests out, replies back in the same order.

A node answers requests in order, as in Kafka. A reply to any request but the oldest, or to none, means that the two
ends disagree about the stream: the connection is closed. It is also closed when a request times out and nothing at all
arrived meanwhile. If the peer is only slow, the connection stays, and the late reply is discarded when it arrives. An
idle connection owns no buffer and no timer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Protocol, cast

from odradek.base import limits
from odradek.base.ports import Link
from odradek.protocol.headers import has_tagged_response_header, request_frame
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.wire import skip_tagged
from odradek.server.network.frames import PartialFrame

if TYPE_CHECKING:
    from odradek.base.ports import Net
    from odradek.server.network.frames import FramePool

_int_at = Struct(">i").unpack_from
REPLY_BYTES_MIN = 4  # the correlation id
CORRELATION_ID_MAX = 0x7FFFFFFF


class PeerUnavailable(Exception):
    """The peer could not be reached, was lost, or sent no valid reply in time. It may have executed the request."""


class Question:
    """One request under way. Its future is done early when the time is up or the caller gave up."""

    __slots__ = ("answer", "api_key", "arrivals_before", "body", "connection", "correlation_id", "version")

    def __init__(self, api_key: int, version: int, body: bytes, answer: asyncio.Future[memoryview]) -> None:
        self.api_key = api_key
        self.version = version
        self.body = body
        self.answer = answer
        # Set once it is sent.
        self.connection: PeerConnection | None = None
        self.correlation_id = -1
        self.arrivals_before = 0

    def fail(self, why: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(PeerUnavailable(why))


class Owner(Protocol):
    """What the connections of one `Peers` share."""

    net: Net
    client_id: str
    receive_buffer: memoryview
    frame_pool: FramePool


class Keeper(Protocol):
    """Is notified when the connection's state changes."""

    def made(self, connection: PeerConnection) -> None: ...

    def answered(self) -> None: ...

    def over(self, connection: PeerConnection, why: str) -> None:
        """Nothing more is sent or received. Called once."""

    def gone(self, connection: PeerConnection) -> None:
        """Its transport is closed. Called once, last."""


class PeerConnection(asyncio.BufferedProtocol):
    __slots__ = (
        "_correlation_id",
        "_frame",
        "_keeper",
        "_link",
        "_over",
        "_owner",
        "_prefix",
        "_transport",
        "_unanswered",
        "address",
        "arrivals",
        "has_answered",
    )

    def __init__(self, owner: Owner, keeper: Keeper, address: tuple[str, int]) -> None:
        self._owner = owner
        self._keeper = keeper
        self.address = address
        # Reads so far: shows whether anything arrived since a request was sent.
        self.arrivals = 0
        self.has_answered = False
        self._over = False
        self._correlation_id = 0
        # Sent and not yet answered, oldest first. The reply arrives even if the caller has given up.
        self._unanswered: deque[Question] = deque()
        # The first bytes of a length that a read cut in two.
        self._prefix = b""
        self._frame: PartialFrame | None = None

    @property
    def unanswered_count(self) -> int:
        return len(self._unanswered)

    def send(self, question: Question) -> None:
        if self._link.unsent_bytes() > limits.connection_unsent_bytes_max:
            question.fail("it does not read what was sent to it")
            return
        self._correlation_id = self._correlation_id + 1 & CORRELATION_ID_MAX
        question.connection = self
        question.correlation_id = self._correlation_id
        question.arrivals_before = self.arrivals
        self._unanswered.append(question)
        frame = request_frame(
            question.api_key, question.version, self._correlation_id, self._owner.client_id, question.body
        )
        question.body = b""
        self._link.send([frame])

    def heard_nothing_since(self, question: Question) -> bool:
        return self.arrivals == question.arrivals_before

    def end(self, why: str) -> None:
        """Closes it now. Requests that wait for a reply fail with `why`."""
        if not self._over:
            self._finish(why)
            self._transport.abort()

    def _finish(self, why: str) -> None:
        self._over = True
        self._frame = None
        self._prefix = b""
        unanswered, self._unanswered = self._unanswered, deque()
        self._keeper.over(self, why)
        for question in unanswered:
            question.fail(why)

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._link: Link = self._owner.net.link(self._transport)
        self._keeper.made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.lost()
        if not self._over:
            self._finish(f"the connection was lost: {exc}" if exc else "it closed the connection")
        self._keeper.gone(self)

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        self._link.pump()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        if self._frame is not None:
            return self._frame.room()
        received = self._owner.receive_buffer
        split = len(self._prefix)
        if split:
            received[:split] = self._prefix
            return received[split:]
        return received

    def buffer_updated(self, nbytes: int) -> None:
        if self._over:
            return
        self.arrivals += 1
        frame = self._frame
        if frame is None:
            end = len(self._prefix) + nbytes
            self._prefix = b""
            self._take(self._owner.receive_buffer, end)
            return
        frame.filled += nbytes
        if frame.filled == frame.length:
            self._frame = None
            # The buffer goes with the reply: the caller may keep views of it.
            self._reply(frame.view[: frame.length])
        elif not frame.has_room():
            self.end(f"there is no room for a reply of {frame.length} bytes")

    # Replies

    def _take(self, received: memoryview, end: int) -> None:
        position = 0
        while end - position >= 4:
            (length,) = _int_at(received, position)
            if not REPLY_BYTES_MIN <= length <= limits.peer_reply_bytes_max:
                self.end(f"it announced a reply of {length} bytes")
                return
            start = position + 4
            position = start + length
            if position > end:
                self._frame = PartialFrame(self._owner.frame_pool, length, received[start:end])
                return
            self._reply(memoryview(bytes(received[start:position])))
            if self._over:
                return
        self._prefix = bytes(received[position:end])

    def _reply(self, reply: memoryview) -> None:
        (correlation_id,) = _int_at(reply)
        if not self._unanswered or self._unanswered[0].correlation_id != correlation_id:
            self.end(f"its reply with correlation id {correlation_id} is out of order")
            return
        question = self._unanswered.popleft()
        position = 4
        if has_tagged_response_header(question.api_key, question.version):
            try:
                position = skip_tagged(reply, 5, reply[4])
            except (MalformedMessage, IndexError):
                self._unanswered.appendleft(question)
                self.end("its reply has a broken header")
                return
        self.has_answered = True
        self._keeper.answered()
        if not question.answer.done():
            question.answer.set_result(reply[position:])
