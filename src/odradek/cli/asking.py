"""One request to a broker without librdkafka: for what it has no call for."""

from __future__ import annotations

import socket
from typing import TypeVar

from odradek.base.errors import ErrorCode
from odradek.cli.remote import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, fail, fail_unreachable
from odradek.protocol.headers import has_tagged_response_header, request_frame
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.schema import Message
from odradek.protocol.wire import skip_tagged

R = TypeVar("R", bound=Message)

CLIENT_ID = "odradek-cli"
CORRELATION_ID = 1
REPLY_BYTES_MAX = 64 * 1024 * 1024


class _HungUp(Exception):
    """Somebody is there, and does not speak our language."""


def ask(bootstrap: str, request: Message, version: int, response: type[R]) -> R:
    """The answer of the first broker that gives one; any of them answers for the cluster."""
    reply = _first_reply(
        bootstrap, request_frame(request.KEY, version, CORRELATION_ID, CLIENT_ID, request.encode(version))
    )
    try:
        tagged = has_tagged_response_header(request.KEY, version)
        return response.decode(reply, version, skip_tagged(reply, 5, reply[4]) if tagged else 4)
    except (MalformedMessage, IndexError) as broken:
        fail(f"{bootstrap} answers something else than asked: {broken}")


def is_reachable(host: str, port: int, within_s: float = 1.0) -> bool:
    try:
        socket.create_connection((host, port), within_s).close()
    except OSError:
        return False
    return True


def name_of(error_code: int) -> str:
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error {error_code}"


def _first_reply(bootstrap: str, frame: bytes) -> memoryview:
    silent = []
    for address in bootstrap.split(","):
        try:
            return _exchange(address.strip(), frame)
        except _HungUp as rude:
            fail(f"{address} {rude}")
        except (OSError, ValueError) as unreachable:
            silent.append(str(unreachable))
    return fail_unreachable(bootstrap, silent[0])


def _exchange(address: str, frame: bytes) -> memoryview:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S) as connection:
        connection.settimeout(REQUEST_TIMEOUT_S)
        connection.sendall(frame)
        length = int.from_bytes(_exactly(connection, 4), "big")
        if length > REPLY_BYTES_MAX:
            raise _HungUp(f"announces a reply of {length} bytes")
        return memoryview(_exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        part = connection.recv(min(count - len(received), 1 << 16))
        if not part:
            raise _HungUp("closed the connection instead of an answer: it may not know this request")
        received += part
    return bytes(received)
