"""Requests to brokers without librdkafka, for APIs that librdkafka lacks."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

from odradek.base.errors import ErrorCode
from odradek.base.hosts import CONNECT_ERRORS
from odradek.client.addresses import Address
from odradek.client.knocking import CONNECT_TIMEOUT_S, said_by
from odradek.protocol.headers import has_tagged_response_header, request_frame
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.schema import Message
from odradek.protocol.wire import skip_tagged

R = TypeVar("R", bound=Message)

CORRELATION_ID = 1
REPLY_BYTES_MAX = 64 * 1024 * 1024
IDLE_CONNECTIONS_MAX = 4


class NoAnswer(Exception):
    """No broker gave a usable answer."""


class Unreachable(NoAnswer):
    """The address accepts no connection."""


class Late(NoAnswer):
    """The broker accepts connections, but does not answer in time."""


class SpeaksHttp(NoAnswer):
    """The address is that of an HTTP server."""


class Unsupported(NoAnswer):
    """The broker does not have this API, or none of the versions that we speak."""


def name_of(error_code: int) -> str:
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error {error_code}"


def connected(address: Address, within_s: float = CONNECT_TIMEOUT_S) -> socket.socket:
    try:
        return socket.create_connection(address, within_s)
    except CONNECT_ERRORS as nobody:
        raise Unreachable(said_by(nobody)) from nobody


def exchange(
    connection: socket.socket,
    address: Address,
    frame: bytes,
    while_waiting: Callable[[], None] | None = None,
    patience_s: float = 0.0,
) -> memoryview:
    """The reply to one frame. Calls `while_waiting` if there is none after `patience_s`."""
    try:
        connection.sendall(frame)
        if while_waiting is not None and not select.select([connection], [], [], patience_s)[0]:
            while_waiting()
        head = _exactly(connection, 4)
        if head == b"HTTP":
            raise SpeaksHttp(f"{address} speaks HTTP, not Kafka's protocol. Name the address of a broker's listener")
        length = int.from_bytes(head, "big")
        if length > REPLY_BYTES_MAX:
            raise NoAnswer(f"{address} announces a reply of {length} bytes")
        return memoryview(_exactly(connection, length))
    except TimeoutError:
        raise Late(f"{address} accepts connections, but did not answer in time") from None
    except OSError as lost:
        raise NoAnswer(f"{address} {lost}") from lost


def framed(request: Message, version: int, client_id: str) -> bytes:
    return request_frame(request.KEY, version, CORRELATION_ID, client_id, request.encode(version))


def decoded(reply: memoryview, request: Message, version: int, response: type[R], whom: object) -> R:
    try:
        tagged = has_tagged_response_header(request.KEY, version)
        return response.decode(reply, version, skip_tagged(reply, 5, reply[4]) if tagged else 4)
    except (MalformedMessage, IndexError) as broken:
        raise NoAnswer(f"{whom} sent a malformed answer: {broken}") from broken


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        part = connection.recv(min(count - len(received), 1 << 16))
        if not part:
            raise OSError("closed the connection without an answer: it may not support this request")
        received += part
    return bytes(received)


class Wire:
    """Kept connections to one address, for any thread. Speaks the newest version of an API that both sides know."""

    def __init__(self, address: Address, client_id: str, *, within_s: float) -> None:
        self.address = address
        self._client_id = client_id
        self._within_s = within_s
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._versions: dict[int, tuple[int, int]] | None = None

    def ask(self, request: Message, response: type[R], *, newest: int | None = None) -> R:
        """Raises NoAnswer. `newest` limits the version."""
        version = self._version(request, newest)
        reply = self._reply(framed(request, version, self._client_id), self._within_s)
        return decoded(reply, request, version, response, self.address)

    def knock(self, within_s: float) -> None:
        """Raises NoAnswer unless the broker answers in this time."""
        self._versions = self._asked_versions(within_s)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _version(self, request: Message, newest: int | None) -> int:
        ours = request.VERSIONS
        theirs = self._known().get(request.KEY)
        last = min(ours[1], ours[1] if newest is None else newest, -1 if theirs is None else theirs[1])
        if theirs is None or last < max(ours[0], theirs[0]):
            raise Unsupported(f"{self.address} does not support API {request.KEY} ({type(request).__name__})")
        return last

    def _known(self) -> dict[int, tuple[int, int]]:
        if self._versions is None:
            self._versions = self._asked_versions(self._within_s)
        return self._versions

    def _asked_versions(self, within_s: float) -> dict[int, tuple[int, int]]:
        asked = ApiVersionsRequest()
        reply = self._reply(framed(asked, 0, self._client_id), within_s)
        answer = decoded(reply, asked, 0, ApiVersionsResponse, self.address)
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _reply(self, frame: bytes, within_s: float) -> memoryview:
        """A kept connection may have been closed meanwhile: then a new one sends the request once more."""
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                return self._over(kept, frame, within_s)
            except Late:
                raise
            except NoAnswer:
                self._versions = None  # another version of the broker may have started
        return self._over(connected(self.address, within_s), frame, within_s)

    def _over(self, connection: socket.socket, frame: bytes, within_s: float) -> memoryview:
        connection.settimeout(within_s)
        try:
            reply = exchange(connection, self.address, frame)
        except NoAnswer:
            connection.close()
            raise
        with self._lock:
            is_kept = len(self._idle) < IDLE_CONNECTIONS_MAX
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()
        return reply
