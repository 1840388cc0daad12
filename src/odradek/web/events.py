"""Server-sent events to many listeners at once: `publish` from any thread, one bounded queue per listener.

A listener that is too slow is disconnected once its queue is full; a browser then reconnects by itself and gets the
greeting. So memory is bounded, and no listener delays another.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from odradek.base.limits import MIB
from odradek.web.errors import HttpError
from odradek.web.scope import ABORT, STOPPING

QUEUE_BYTES_MAX = 1 * MIB
LISTENERS_MAX = 500
HEARTBEAT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`data` is sent as JSON. An event without a name goes to a browser's `onmessage`."""

    data: object
    name: str = ""

    def frame(self) -> bytes:
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {json.dumps(self.data, separators=(',', ':'))}\n\n".encode()


def nothing() -> Iterable[Event]:
    return ()


class Broadcast:
    """Sends the same events to all listeners.

    `greeting` returns the first events of a new listener, such as the current state. It is called after the listener
    has joined: no event is missed, but an event of that moment may also be part of the greeting.
    """

    def __init__(
        self,
        greeting: Callable[[], Iterable[Event]] = nothing,
        *,
        queue_bytes_max: int = QUEUE_BYTES_MAX,
        listeners_max: int = LISTENERS_MAX,
    ) -> None:
        self._greeting = greeting
        self._queue_bytes_max = queue_bytes_max
        self._listeners_max = listeners_max
        self._lock = threading.Lock()
        self._listeners: list[_Listener] = []
        self._dropped = 0

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    @property
    def dropped(self) -> int:
        """The number of listeners that were disconnected because they were too slow."""
        return self._dropped

    def publish(self, data: object, name: str = "") -> None:
        with self._lock:
            if not self._listeners:
                return
            frame = Event(data=data, name=name).frame()
            slow = [listener for listener in self._listeners if not listener.offer(frame)]
            for listener in slow:
                self._listeners.remove(listener)
            self._dropped += len(slow)

    def response(self) -> Response:
        """The response of an endpoint: a stream of events until the listener leaves or the server stops."""
        return _EventStream(self)

    @contextmanager
    def joined(self) -> Iterator[_Listener]:
        listener = _Listener(asyncio.get_running_loop(), self._queue_bytes_max)
        with self._lock:
            if len(self._listeners) >= self._listeners_max:
                raise HttpError(503, "too many listeners", f"{self._listeners_max} are connected already; try later")
            self._listeners.append(listener)
        try:
            listener.greeting = b"".join(event.frame() for event in self._greeting())
            yield listener
        finally:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)


class _Listener:
    """A queue that `publish` fills under the broadcast's lock, and that the stream's task empties."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bytes_max: int) -> None:
        self._loop = loop
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        self.too_slow = asyncio.Event()
        self.greeting = b""

    def offer(self, frame: bytes) -> bool:
        """False when the queue is full; a single event larger than the queue still passes."""
        with self._lock:
            if self._frames and self._bytes + len(frame) > self._bytes_max:
                self._wake(self.too_slow)
                return False
            self._frames.append(frame)
            self._bytes += len(frame)
            if len(self._frames) == 1:
                self._wake(self._filled)
            return True

    def _wake(self, event: asyncio.Event) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(event.set)

    def _taken(self) -> bytes:
        with self._lock:
            self._filled.clear()
            taken = b"".join(self._frames)
            self._frames.clear()
            self._bytes = 0
            return taken

    async def waiting(self) -> bytes:
        """The queued events; after a pause a comment, which detects whether the listener is still connected."""
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                await self._filled.wait()
        except TimeoutError:
            return b": still here\n\n"
        return self._taken()


class _EventStream(Response):
    media_type = "text/event-stream"

    def __init__(self, broadcast: Broadcast) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._broadcast = broadcast

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._broadcast.joined() as listener:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            stopping: asyncio.Event = scope.get(STOPPING) or asyncio.Event()
            await first_of(self._pump(listener, send), gone(receive), listener.too_slow.wait(), stopping.wait())
            if listener.too_slow.is_set():
                # A normal end of the stream would wait for the reader that does not read.
                scope.get(ABORT, _no_abort)()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, listener: _Listener, send: Send) -> None:
        frames = b"retry: 1000\n\n" + listener.greeting
        while True:
            await send({"type": "http.response.body", "body": frames, "more_body": True})
            frames = await listener.waiting()


def _no_abort() -> None:
    """For other servers: their own timeouts apply."""


async def gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def first_of(*endings: object) -> None:
    tasks = [asyncio.ensure_future(ending) for ending in endings]  # type: ignore[call-overload]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
