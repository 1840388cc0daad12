"""The exports of one process: its HTTP endpoint and its pushes, started and stopped together."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from odradek.export.destinations import Destinations, Identity
from odradek.export.dogstatsd_socket import DogStatsdAgent
from odradek.export.otlp_http import OtlpCollector
from odradek.export.pushing import Pusher, SnapshotOf
from odradek.monitor.registry import Registry, Snapshot, run_at_once
from odradek.web.listening import CannotListen, listening

if TYPE_CHECKING:
    from odradek.web.server import HttpServer

logger = logging.getLogger(__name__)

HOST, PORT = "127.0.0.1", 9464


def pushers(destinations: Destinations, identity: Identity, snapshot: SnapshotOf) -> Sequence[Pusher]:
    """One for each destination that is set, not started."""
    found: list[Pusher] = []
    labels, every_s = destinations.labels, destinations.every_s
    if (otlp := destinations.otlp) is not None:
        found.append(Pusher(OtlpCollector(otlp, identity, labels), str(otlp), snapshot, every_s))
    if (agent := destinations.dogstatsd) is not None:
        found.append(Pusher(DogStatsdAgent(agent, identity, labels), str(agent), snapshot, every_s))
    return found


class ProcessMetrics:
    """The registry of a process that may be read from any thread, at its address and pushed, inside a `with` block.

    `address` is None for no HTTP. If its port is taken and `is_default`, a free one is used.
    """

    def __init__(
        self,
        registry: Registry,
        identity: Identity,
        *,
        address: tuple[str, int] | None = (HOST, PORT),
        is_default: bool = True,
        destinations: Destinations | None = None,
    ) -> None:
        self.registry = registry
        self._address = address
        self._is_default = is_default
        self._pushers = pushers(destinations or Destinations(), identity, self._for_push)
        self._reading = threading.Lock()
        self._is_started = False
        self._server: HttpServer | None = None

    @property
    def url(self) -> str | None:
        """None without HTTP."""
        return None if self._server is None else f"{self._server.url}/metrics"

    @contextmanager
    def _for_push(self) -> Iterator[Snapshot]:
        yield self.snapshot()

    def snapshot(self) -> Snapshot:
        with self._reading:
            run_at_once(self.registry.tick())
            return self.registry.snapshot()

    def start(self) -> None:
        if self._is_started:
            return
        self._is_started = True
        if self._address is not None:
            self._serve(*self._address)
        for pusher in self._pushers:
            pusher.start()

    def _serve(self, host: str, port: int) -> None:
        from odradek.web.application import application
        from odradek.web.monitoring import monitoring_routes
        from odradek.web.server import HttpServer

        @asynccontextmanager
        async def snapshot() -> AsyncIterator[Snapshot]:
            yield await asyncio.to_thread(self.snapshot)

        try:
            listener = listening(host, port)
        except CannotListen as taken:
            if not self._is_default:
                raise
            logger.info("metrics: port %d is taken, so a free one is used (%s)", port, taken.strerror)
            listener = listening(host, 0)
        self._server = HttpServer(application(monitoring_routes(snapshot)), host, listener=listener)
        self._server.start()

    def stop(self) -> None:
        for pusher in self._pushers:
            pusher.stop()
        if self._server is not None:
            self._server.stop()
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
