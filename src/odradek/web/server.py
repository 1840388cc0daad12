"""HttpServer: serves an ASGI application in its own thread or in the foreground.

It listens on loopback unless another host is named. The port is bound when the server starts, so a taken port is an
error of `start`, and with port 0 the number is known at once. `stop` ends open event streams and returns within
STOP_GRACE_S even when a client reads nothing.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from odradek.web.guards import KnownNames, is_loopback
from odradek.web.listening import listening
from odradek.web.scope import ABORT, STOPPING
from odradek.web.strangers import Strangers

CONNECTIONS_MAX = 1000
START_TIMEOUT_S = 10.0
STOP_GRACE_S = 2.0
FIRST_BYTES = 8
# uvicorn logs this for every request that is not HTTP. Strangers says what it probably is, and not every time.
UVICORNS_WARNING = "Invalid HTTP request received."
_STRANGERS = Strangers()


class HttpServer:
    """Serves `app` for as long as a `with` block lasts.

        with HttpServer(application([Route("/", home)])) as server:
            httpx.get(server.url)

    On loopback it accepts only loopback host names and those in `names`: see KnownNames.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        names: Sequence[str] = (),
        listener: socket.socket | None = None,
    ) -> None:
        """`listener` is already listening, on `host`."""
        self._app = KnownNames(app, names) if is_loopback(host) else app
        self._host = host
        self._wanted_port = port
        self._listener = listener
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        if self._socket is None:
            raise RuntimeError("the HTTP server is not running; use it inside `with HttpServer(app) as server:`")
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        """After a failure, a server that still comes up ends at once. The listener is closed then, too."""
        self._socket = self._listener or listening(self._host, self._wanted_port)
        self._server = server = _Server(self._app)
        self._thread = threading.Thread(target=server.run_on, args=[self._socket], name="odradek-http", daemon=True)
        self._thread.start()
        try:
            server.wait_until_started()
        except BaseException:
            server.should_exit = True
            self._socket = self._server = self._thread = None
            raise

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join()
        self._socket = self._server = self._thread = None

    def serve_forever(self, on_ready: Callable[[str], None] | None = None) -> None:
        """Runs in the foreground until SIGINT or SIGTERM, which are raised again after the clean stop.

        `on_ready` gets the URL when the server accepts requests.
        """
        self._socket = listening(self._host, self._wanted_port)
        if on_ready is not None:
            on_ready(self.url)  # the socket accepts connections already
        server = _Server(self._app)
        try:
            server.run_on(self._socket)
        finally:
            self._socket = None
        server.raise_problem()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Server(uvicorn.Server):
    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._stopping: asyncio.Event | None = None
        self._up = threading.Event()
        self._problem: BaseException | None = None
        super().__init__(
            uvicorn.Config(
                self._with_stopping,
                interface="asgi3",
                http=_Protocol,
                ws="none",
                loop="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=CONNECTIONS_MAX,
                timeout_graceful_shutdown=int(STOP_GRACE_S) + 1,
            )
        )

    def run_on(self, listener: socket.socket) -> None:
        try:
            asyncio.run(self.serve(sockets=[listener]))
        except SystemExit:
            self._problem = RuntimeError("the application's lifespan failed at its start; the log says how")
        except Exception as broken:
            if self._up.is_set():
                raise
            self._problem = broken
        finally:
            listener.close()
            self._up.set()

    def wait_until_started(self) -> None:
        if not self._up.wait(START_TIMEOUT_S):
            raise TimeoutError(f"the HTTP server did not start within {START_TIMEOUT_S:.0f} s")
        self.raise_problem()

    def raise_problem(self) -> None:
        if self._problem is not None:
            raise self._problem

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping = asyncio.Event()
        await super().startup(sockets)
        self._up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._stopping is not None:
            self._stopping.set()
        asyncio.get_running_loop().call_later(STOP_GRACE_S, self._abort_all)
        await super().shutdown(sockets)

    def _abort_all(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in list(self.server_state.tasks):
            task.cancel()

    async def _with_stopping(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[STOPPING] = self._stopping
        await self._app(scope, receive, send)


class _Protocol(H11Protocol):
    """Lets a response close its own connection, and reports requests that h11 refuses."""

    _first_bytes = b""

    def data_received(self, data: bytes) -> None:
        if len(self._first_bytes) < FIRST_BYTES:
            self._first_bytes = (self._first_bytes + data)[:FIRST_BYTES]
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        client, port = (self.client or ("a client",))[0], (self.server or ("", 0))[1]
        # uvicorn calls this while it handles the error of h11.
        _STRANGERS.report(self._first_bytes, client, port or 0, str(sys.exception() or msg))
        super().send_400_response(msg)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.logger = _log_of_requests()
        app = self.app

        async def with_abort(scope: Scope, receive: Receive, send: Send) -> None:
            scope[ABORT] = transport.abort
            await app(scope, receive, send)

        self.app = with_abort


def _log_of_requests() -> logging.Logger:
    logger = logging.getLogger("odradek.web.requests")
    logger.addFilter(_is_not_uvicorns_warning)  # adding it again has no effect
    return logger


def _is_not_uvicorns_warning(record: logging.LogRecord) -> bool:
    return record.msg != UVICORNS_WARNING
