"""Server-sent events of work that is done for one request: a search, a live tail. It ends when the listener leaves.

The work runs on a thread of its own. A full queue makes it wait, so memory is bounded and a slow reader slows the work.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from odradek.base.limits import MIB
from odradek.web.events import Event, first_of, gone
from odradek.web.scope import STOPPING

QUEUE_BYTES_MAX = 1 * MIB
OFFER_S = 0.1
# A listener that reads nothing for so long has left, whatever its connection says: its work holds a place.
PATIENCE_S = 60.0

logger = logging.getLogger(__name__)


class Stopped(Exception):
    """The listener has left, or the server stops: the work must end now."""


class Line:
    """Where work sends its events, and learns that it must stop. For one thread at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, bytes_max: int = QUEUE_BYTES_MAX) -> None:
        self._loop = loop
        self._bytes_max = bytes_max
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._filled = asyncio.Event()
        self._is_stopped = False
        self._is_done = False

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped

    def check(self) -> None:
        """Raises Stopped. Work calls this often."""
        if self._is_stopped:
            raise Stopped

    def send(self, name: str, data: object) -> None:
        """Waits while the queue is full. Raises Stopped."""
        frame = Event(data=data, name=name).frame()
        with self._changed:
            while self._frames and self._bytes + len(frame) > self._bytes_max and not self._is_stopped:
                self._changed.wait(OFFER_S)
            self.check()
            self._put(frame)

    def offer(self, name: str, data: object) -> bool:
        """False if the queue is full: the event is lost."""
        frame = Event(data=data, name=name).frame()
        with self._changed:
            if self._frames and self._bytes + len(frame) > self._bytes_max:
                return False
            self._put(frame)
            return True

    def wait(self, seconds: float) -> None:
        """Returns early when the work must stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped, seconds)

    def _put(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._bytes += len(frame)
        self._wake()

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._filled.set)

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def end(self) -> None:
        """The work is done. What is queued is still sent."""
        with self._changed:
            self._is_done = True
            self._wake()

    async def taken(self) -> bytes | None:
        """The queued events, or None after the last ones."""
        await self._filled.wait()
        with self._changed:
            self._filled.clear()
            frames = b"".join(self._frames)
            self._frames.clear()
            self._bytes = 0
            self._changed.notify_all()
            if self._is_done and not frames:
                return None
            if self._is_done:
                self._filled.set()
            return frames


class Patient:
    """Sends to a listener. Raises TimeoutError if it does not read."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def __call__(self, message: Message) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._send(message)


class WorkStream(Response):
    """The response of an endpoint: `work(line)` runs on a thread until it returns or the listener leaves."""

    media_type = "text/event-stream"

    def __init__(self, work: Callable[[Line], None], name: str = "odradek-work") -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._work = work
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        line = Line(asyncio.get_running_loop())
        thread = threading.Thread(target=self._run, args=[line], name=self._name, daemon=True)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        stopping: asyncio.Event = scope.get(STOPPING) or asyncio.Event()
        thread.start()
        patient = Patient(send)
        try:
            await first_of(self._pump(line, patient), gone(receive), stopping.wait())
        except TimeoutError:
            return
        finally:
            line.stop()
        await patient({"type": "http.response.body", "body": b"", "more_body": False})

    def _run(self, line: Line) -> None:
        try:
            self._work(line)
        except Stopped:
            pass
        except Exception:
            logger.exception("%s failed", self._name)
            line.offer("problem", {"what": "the work failed; the server's log has more"})
        finally:
            line.end()

    async def _pump(self, line: Line, send: Send) -> None:
        while (frames := await line.taken()) is not None:
            await send({"type": "http.response.body", "body": frames, "more_body": True})
