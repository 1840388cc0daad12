"""/metrics and /jolokia: the registry of a process for Prometheus and for clients of Jolokia.

A slice of a scrape is short, and the pause after it lets other threads of the process take the interpreter lock. An
answer is complete before it is sent: the snapshot does not have to wait for a slow client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.base.steps import in_slices
from odradek.monitor.exposition import content_type, exposition
from odradek.monitor.registry import Registry, Snapshot
from odradek.web.errors import HttpError
from odradek.web.pieces import in_pieces

PAUSE_S = 0.001
JOLOKIA = "/jolokia"

# Gives a snapshot for the time of one answer. Raises TimeoutError while the process is busy.
SnapshotOf = Callable[[], AbstractAsyncContextManager[Snapshot]]


@asynccontextmanager
async def fresh_snapshot(registry: Registry) -> AsyncIterator[Snapshot]:
    """For a process whose registry may be read on the thread of its HTTP server, and that runs no `tick` itself."""
    await in_slices(registry.tick(), PAUSE_S)
    yield await in_slices(registry.collect(), PAUSE_S)


def monitoring_routes(wanted: SnapshotOf) -> list[BaseRoute]:
    @asynccontextmanager
    async def snapshot() -> AsyncIterator[Snapshot]:
        async with AsyncExitStack() as held:
            try:
                taken = await held.enter_async_context(wanted())
            except TimeoutError as late:
                raise HttpError(503, "there are no metrics now", str(late)) from None
            yield taken

    async def metrics(request: Request) -> Response:
        kind = content_type(request.headers.get("accept", ""))
        # As Prometheus' own client libraries: a reader of few metrics need not get the series of all topics.
        names = set(request.query_params.getlist("name[]"))
        async with snapshot() as every:
            readings = [each for each in every if each.metric.name in names] if names else every
            text = await in_pieces(exposition(readings, kind), PAUSE_S)
        return Response(text, headers={"content-type": kind})

    async def jolokia(request: Request) -> Response:
        from odradek.web.jolokia import answer  # only for its clients: it takes 1 MB

        return await answer(request, snapshot, PAUSE_S)

    asked_by = ["GET", "POST"]
    return [
        Route("/metrics", metrics),
        Route(JOLOKIA, jolokia, methods=asked_by),
        Route(f"{JOLOKIA}/{{path:path}}", jolokia, methods=asked_by),
    ]
