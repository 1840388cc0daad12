"""/jolokia: the MBeans of a process by Jolokia's protocol, for clients such as Telegraf, hawtio and jolokia.js."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from odradek import __version__
from odradek.base.steps import in_slices
from odradek.monitor.jolokia.answers import About, Answering, text
from odradek.monitor.jolokia.requests import BadRequest, Request, from_body, from_path
from odradek.monitor.registry import Snapshot

JSON = "application/json; charset=utf-8"
PATH = "/jolokia"


def jolokia_routes(snapshot: Callable[[], Awaitable[Snapshot]], pause_s: float) -> list[BaseRoute]:
    about = About(version=__version__, agent_id=f"{socket.gethostname()}-{os.getpid()}-odradek")

    async def answer(http: HttpRequest) -> Response:
        try:
            requests, is_list = await _requests(http)
        except BadRequest as bad:
            return PlainTextResponse(f"400 (Bad Request)\n\n{bad}\n", 400)
        readings = await snapshot() if any(each.needs_snapshot for each in requests) else []
        answers = await in_slices(Answering(about, int(time.time())).answers(requests, readings), pause_s)
        document = answers if is_list else answers[0]

        async def pieces() -> AsyncIterator[str]:
            for piece in text(document):
                yield piece
                await asyncio.sleep(pause_s)

        return StreamingResponse(pieces(), headers={"content-type": JSON, "cache-control": "no-cache"})

    methods = ["GET", "POST"]
    return [Route(PATH, answer, methods=methods), Route(f"{PATH}/{{path:path}}", answer, methods=methods)]


async def _requests(http: HttpRequest) -> tuple[list[Request], bool]:
    if http.method == "POST":
        return from_body(await http.body(), http.query_params)
    return [from_path(http.path_params.get("path", ""), http.query_params)], False
