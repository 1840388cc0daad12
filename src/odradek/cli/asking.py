"""Sends one request to a broker without librdkafka, for APIs that librdkafka lacks."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from odradek.base.errors import ErrorCode
from odradek.cli.remote import PATIENCE_S, REQUEST_TIMEOUT_S, TIMED_OUT, fail, fail_unreachable
from odradek.client.addresses import Address, parse_addresses
from odradek.client.knocking import CONNECT_TIMEOUT_S, refusal
from odradek.protocol.headers import has_tagged_response_header, request_frame
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.schema import Message
from odradek.protocol.wire import skip_tagged

R = TypeVar("R", bound=Message)

CLIENT_ID = "odradek-cli"
CORRELATION_ID = 1
REPLY_BYTES_MAX = 64 * 1024 * 1024


class NoAnswer(Exception):
    """No broker gave a usable answer."""


class Unreachable(NoAnswer):
    pass


class Late(NoAnswer):
    pass


def ask(bootstrap: str, request: Message, version: int, response: type[R]) -> R:
    """The answer of the first broker that gives one; any broker answers for the cluster. Ends the command without one.

    If the answer is slow because there is no metadata majority, ends the command with that reason.
    """
    from odradek.cli.diagnosis import require_majority

    with no_answer_told(bootstrap):
        return answer(bootstrap, request, version, response, while_waiting=lambda: require_majority(bootstrap))


@contextmanager
def no_answer_told(bootstrap: str) -> Iterator[None]:
    try:
        yield
    except Unreachable as nobody:
        fail_unreachable(bootstrap, str(nobody))
    except Late as slow:
        fail(str(slow), TIMED_OUT)
    except NoAnswer as nonsense:
        fail(str(nonsense))


def answer(
    bootstrap: str,
    request: Message,
    version: int,
    response: type[R],
    *,
    within_s: float = REQUEST_TIMEOUT_S,
    while_waiting: Callable[[], None] | None = None,
) -> R:
    frame = request_frame(request.KEY, version, CORRELATION_ID, CLIENT_ID, request.encode(version))
    reply = _first_reply(bootstrap, frame, within_s, while_waiting)
    try:
        tagged = has_tagged_response_header(request.KEY, version)
        return response.decode(reply, version, skip_tagged(reply, 5, reply[4]) if tagged else 4)
    except (MalformedMessage, IndexError) as broken:
        raise NoAnswer(f"{bootstrap} sent a malformed answer: {broken}") from broken


def is_reachable(host: str, port: int, within_s: float = 1.0) -> bool:
    return refusal(Address(host, port), within_s) is None


def unreachable(addresses: Mapping[int, tuple[str, int]]) -> list[int]:
    """Ids of the nodes that accept no connection. Tries all at once, because each may take until its timeout."""
    if not addresses:
        return []
    with ThreadPoolExecutor(len(addresses)) as knocking:
        found = knocking.map(lambda address: is_reachable(*address), addresses.values())
        return sorted(node_id for node_id, there in zip(addresses, found, strict=True) if not there)


def name_of(error_code: int) -> str:
    try:
        return ErrorCode(error_code).name
    except ValueError:
        return f"error {error_code}"


def _first_reply(bootstrap: str, frame: bytes, within_s: float, while_waiting: Callable[[], None] | None) -> memoryview:
    failures: list[NoAnswer] = []
    for address in parse_addresses(bootstrap):
        try:
            with _connected(address) as connection:
                connection.settimeout(within_s)
                return _exchange(connection, str(address), frame, while_waiting)
        except NoAnswer as failure:
            failures.append(failure)
    # An error after connecting says more than a refused connection.
    raise min(failures, key=lambda failure: isinstance(failure, Unreachable))


def _connected(address: Address) -> socket.socket:
    try:
        return socket.create_connection(address, CONNECT_TIMEOUT_S)
    except OSError as nobody:
        raise Unreachable(str(nobody)) from nobody


def _exchange(
    connection: socket.socket, address: str, frame: bytes, while_waiting: Callable[[], None] | None
) -> memoryview:
    try:
        connection.sendall(frame)
        if while_waiting is not None and not select.select([connection], [], [], PATIENCE_S)[0]:
            while_waiting()
        length = int.from_bytes(_exactly(connection, 4), "big")
        if length > REPLY_BYTES_MAX:
            raise NoAnswer(f"{address} announces a reply of {length} bytes")
        return memoryview(_exactly(connection, length))
    except TimeoutError:
        raise Late(f"{address} accepts connections, but did not answer in time") from None
    except OSError as lost:
        raise NoAnswer(f"{address} {lost}") from lost


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        part = connection.recv(min(count - len(received), 1 << 16))
        if not part:
            raise OSError("closed the connection without an answer: it may not support this request")
        received += part
    return bytes(received)
