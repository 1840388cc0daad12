"""Injects the faults that a test orders, inside the process of an embedded broker.

Around the ports: a clock that can be moved, a disk that can be full. Around the handling of requests: errors, delays
and closed connections, and a list of all requests that arrived.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from odradek.base.errors import ErrorCode
from odradek.base.ports import ByteSource, Clock, Disk, File, Ports
from odradek.protocol.headers import decode_request_header, response_frame
from odradek.protocol.malformed import MalformedMessage
from odradek.server.network.connection import ClientConnection
from odradek.server.network.listener import FrameSink
from odradek.server.network.request import Parts
from odradek.testing.refusals import refusal, request_classes

REQUESTS_KEPT = 10_000
ACKS_NONE = 0


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request that arrived at the broker."""

    api: str
    version: int
    client_id: str | None


@dataclass(slots=True)
class Fault:
    """A fault for the next requests of an API: an error, a delay, or, if both are None, a closed connection.

    `times` None: for all requests from now on.
    """

    api: str
    times: int | None
    error: ErrorCode | None = None
    delay_ms: int | None = None

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError(f"times={self.times}: use 1 or more, or None for always")


def api_name(key: int) -> str:
    return _NAMES.get(key, str(key))


def require_api(name: str) -> None:
    if name not in _NAMES.values():
        raise ValueError(f"there is no API {name!r}; there are {', '.join(sorted(_NAMES.values()))}")


_REQUESTS = request_classes()
_NAMES: dict[int, str] = {key: request.__name__.removesuffix("Request") for key, request in _REQUESTS.items()}


class Faults:
    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._requests: deque[SeenRequest] = deque(maxlen=REQUESTS_KEPT)
        self._clock: MovableClock
        self._disk: FillableDisk

    # Called by the broker process at start-up

    def around(self, ports: Ports) -> Ports:
        self._clock, self._disk = MovableClock(ports.clock), FillableDisk(ports.disk)
        return replace(ports, clock=self._clock, disk=self._disk)

    def intercept(self, handle: FrameSink) -> FrameSink:
        def handle_or_not(connection: ClientConnection, frame: memoryview, position: int, end: int) -> Parts | None:
            try:
                header = decode_request_header(frame, position, end)
            except MalformedMessage:
                return handle(connection, frame, position, end)
            name = api_name(header.api_key)
            self._requests.append(SeenRequest(name, header.api_version, header.client_id))
            fault = self._due(name)
            if fault is None:
                return handle(connection, frame, position, end)
            body = bytes(frame[header.body_position : end])
            try:
                request, _ = _REQUESTS[header.api_key].decode_first(body, header.api_version, 0, len(body))
            except MalformedMessage:
                # The broker refuses it anyway: the body is invalid, or the version does not exist.
                return handle(connection, frame, position, end)
            self._used(fault)
            # With acks=0 the client waits for no response: as in a real broker, an error closes the connection.
            if fault.error is not None and getattr(request, "acks", None) != ACKS_NONE:
                answer = refusal(request, fault.error).encode(header.api_version)
                return [response_frame(header.api_key, header.api_version, header.correlation_id, answer)]
            if fault.error is not None or fault.delay_ms is None:
                connection.abort()
                return None
            _handle_later(handle, connection, bytearray(frame[position:end]), fault.delay_ms)
            return None

        return handle_or_not

    def _due(self, name: str) -> Fault | None:
        return next((fault for fault in self._faults if fault.api == name), None)

    def _used(self, fault: Fault) -> None:
        if fault.times is not None:
            fault.times -= 1
            if fault.times == 0:
                self._faults.remove(fault)

    # Orders of a test

    def obey(self, order: str, arguments: dict[str, Any]) -> object:
        orders: dict[str, Callable[..., object]] = {
            "add": self._add,
            "clear": self._faults.clear,
            "advance": self._advance,
            "fill": self._fill,
            "requests": self._seen,
        }
        return orders[order](**arguments)

    def _add(self, fault: Fault) -> None:
        self._faults.append(fault)

    def _advance(self, ms: int) -> None:
        self._clock.moved_ms += ms

    def _fill(self, full: bool) -> None:
        self._disk.full = full

    def _seen(self) -> list[SeenRequest]:
        return list(self._requests)


def _handle_later(handle: FrameSink, connection: ClientConnection, frame: bytearray, delay_ms: int) -> None:
    connection.request = None  # not the one before
    slot = connection.park(stop_reading=True)

    def handle_now() -> None:
        # A handler that parks takes a new slot behind this one. This slot then stays empty.
        slot.fill(handle(connection, memoryview(frame), 0, len(frame)) or [])

    asyncio.get_running_loop().call_later(delay_ms / 1000, handle_now)


class MovableClock:
    """Only the wall clock moves: retention and expiry use it, timeouts do not."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.moved_ms = 0

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns()

    def wall_ms(self) -> int:
        return self._clock.wall_ms() + self.moved_ms


class FillableDisk:
    """While the disk is full, all writes fail; reads and removals work."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.full = False
        # Operations that only read, or free space.
        self.exists, self.listdir, self.read = disk.exists, disk.listdir, disk.read
        self.rename, self.remove, self.remove_tree = disk.rename, disk.remove, disk.remove_tree
        self.sync_dir, self.sync_all, self.volume = disk.sync_dir, disk.sync_all, disk.volume

    @property
    def location(self) -> str:
        return self._disk.location

    @property
    def shared(self) -> bool:
        """False, because a copy in another process would not know that the disk is full."""
        return False

    def open(self, path: str, *, create: bool = False) -> File:
        if create and not self._disk.exists(path):
            self.require_room(path)
        return _FillableFile(self, self._disk.open(path, create=create))

    def make_dir(self, path: str) -> None:
        self.require_room(path)
        self._disk.make_dir(path)

    def replace(self, path: str, data: bytes) -> None:
        self.require_room(path)
        self._disk.replace(path, data)

    def require_room(self, path: str) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device", path)


class _FillableFile:
    def __init__(self, disk: FillableDisk, file: File) -> None:
        self._disk = disk
        self._file = file
        self.pread, self.size, self.truncate, self.sync = file.pread, file.size, file.truncate, file.sync
        self.close, self.fileno, self.pin, self.unpin = file.close, file.fileno, file.pin, file.unpin

    @property
    def path(self) -> str:
        return self._file.path

    def pwrite(self, data: ByteSource, position: int) -> int:
        self._disk.require_room(self._file.path)
        return self._file.pwrite(data, position)
