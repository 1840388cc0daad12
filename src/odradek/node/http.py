"""HTTP of a node: /healthz, /readyz and /metrics, in its own thread so that requests do not delay the event loop.

The port is bound when the node starts. The server is imported at the first connection, so that HTTP does not make the
start slower.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from odradek.monitor.registry import Registry
from odradek.node.listeners import Endpoint
from odradek.node.snapshots import Snapshots
from odradek.web.listening import CannotListen, listening

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from odradek.web.server import HttpServer

logger = logging.getLogger(__name__)

R = TypeVar("R")

# After a failed start: what failed may need time, and a failure must not keep the node busy.
RETRY_PAUSE_S = 1.0
# An event loop that does not answer for this long counts as stuck.
ANSWERS_WITHIN_S = 5.0


class NodeHttp:
    """`not_ready` is called on the node's event loop. It returns sentences why the node should get no requests."""

    def __init__(
        self, listener: socket.socket, host: str, not_ready: Callable[[], Sequence[str]], registry: Registry
    ) -> None:
        self._listener = listener
        self._host = host
        self._not_ready = not_ready
        self._registry = registry
        self._loop: asyncio.AbstractEventLoop
        self._left_loop = False
        self._starting: threading.Thread | None = None
        self._server: HttpServer | None = None

    @property
    def url(self) -> str:
        return f"http://{Endpoint(host=self._host, port=self._listener.getsockname()[1])}"

    def begin(self) -> None:
        """Runs on the node's event loop."""
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._await_connection()

    def _await_connection(self) -> None:
        if not self._left_loop:
            self._loop.add_reader(self._listener, self._first_connection)

    def _first_connection(self) -> None:
        self._loop.remove_reader(self._listener)
        self._starting = threading.Thread(target=self._serve, name="odradek-http-start", daemon=True)
        self._starting.start()

    def _serve(self) -> None:
        try:
            from odradek.web.server import HttpServer

            # The server closes its socket, also when it does not start. This one stays open for another attempt.
            server = HttpServer(self._application(), self._host, listener=self._listener.dup())
            server.start()
        except Exception as broken:
            logger.warning("HTTP did not start, the next connection tries again: %s", broken, exc_info=True)
            self._hang_up()
            self._loop.call_soon_threadsafe(self._loop.call_later, RETRY_PAUSE_S, self._await_connection)
        else:
            self._server = server

    def _hang_up(self) -> None:
        """Closes the connections that wait, so that their clients do not wait for an answer."""
        with suppress(OSError):
            while True:
                self._listener.accept()[0].close()

    def stop(self) -> None:
        """Slow while requests are being answered. Must not run on the event loop."""
        if self._starting is not None:
            self._starting.join()
        if self._server is not None:
            self._server.stop()
        self._listener.close()

    def leave_loop(self) -> None:
        """Runs on the event loop, before `stop`."""
        self._left_loop = True
        self._loop.remove_reader(self._listener)

    def _application(self) -> ASGIApp:
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        from odradek.web.application import application
        from odradek.web.monitoring import monitoring_routes

        async def healthz(_: Request) -> Response:
            if await self._asked(lambda: True) is None:
                return JSONResponse({"healthy": False, "reasons": [_stuck()]}, 503)
            return JSONResponse({"healthy": True})

        async def readyz(_: Request) -> Response:
            reasons = await self._asked(self._not_ready)
            if reasons is None:
                reasons = [_stuck()]
            return JSONResponse({"ready": not reasons, "reasons": list(reasons)}, 503 if reasons else 200)

        # The text is made on this thread.
        snapshots = Snapshots(self._registry, self._loop)
        routes = [Route("/healthz", healthz), Route("/readyz", readyz), *monitoring_routes(snapshots.for_request)]
        return application(routes)

    async def _asked(self, question: Callable[[], R]) -> R | None:
        """The answer of the node's event loop; None after the timeout."""
        answer: Future[R] = Future()

        def ask() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(question())
                except Exception as broken:  # noqa: BLE001 - raised again where the request is answered
                    answer.set_exception(broken)

        self._loop.call_soon_threadsafe(ask)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), ANSWERS_WITHIN_S)
        except TimeoutError:
            return None


def _stuck() -> str:
    return f"the event loop of this node did not answer within {ANSWERS_WITHIN_S:.0f} s"


def bound(wanted: Endpoint, *, is_default: bool) -> socket.socket:
    """Binds the port. Takes a free one if the default port cannot be used: several nodes may share a machine."""
    try:
        return listening(wanted.host, wanted.port, "Choose another address with http.listener")
    except CannotListen as refused:
        if not is_default:
            raise
        logger.warning("HTTP: a free port is used instead of the default: %s", refused.strerror)
    return listening(wanted.host, 0)
