"""/metrics and /jolokia: the registry of a process for Prometheus and for clients of Jolokia.

A slice of a scrape is short, and the pause after it lets other threads of the process take the interpreter lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from odradek.base.steps import in_slices
from odradek.monitor.exposition import content_type, exposition
from odradek.monitor.registry import Registry, Snapshot
from odradek.web.jolokia import jolokia_routes

PAUSE_S = 0.001


async def fresh_snapshot(registry: Registry) -> Snapshot:
    """For a process whose registry may be read on the thread of its HTTP server, and that runs no `tick` itself."""
    await in_slices(registry.tick(), PAUSE_S)
    return await in_slices(registry.collect(), PAUSE_S)


def monitoring_routes(snapshot: Callable[[], Awaitable[Snapshot]]) -> list[BaseRoute]:
    async def metrics(request: Request) -> Response:
        kind = content_type(request.headers.get("accept", ""))
        readings = await snapshot()

        async def pieces() -> AsyncIterator[str]:
            for piece in exposition(readings, kind):
                yield piece
                await asyncio.sleep(PAUSE_S)

        return StreamingResponse(pieces(), headers={"content-type": kind})

    return [Route("/metrics", metrics), *jolokia_routes(snapshot, PAUSE_S)]
