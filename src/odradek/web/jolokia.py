"""/jolokia: the MBeans of a process by Jolokia's protocol, for clients such as Telegraf, hawtio and jolokia.js."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager

from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from odradek import __version__
from odradek.base.steps import in_slices
from odradek.monitor.jolokia.answers import About, Answering, text
from odradek.monitor.jolokia.requests import BadRequest, Request, from_body, from_path
from odradek.monitor.registry import Snapshot

JSON = "application/json; charset=utf-8"
PATH = "/jolokia"


# Gives a snapshot for the time of one answer.
SnapshotOf = Callable[[], AbstractAsyncContextManager[Snapshot]]


def jolokia_routes(snapshot: SnapshotOf, pause_s: float) -> list[BaseRoute]:
    about = About(version=__version__, agent_id=f"{socket.gethostname()}-{os.getpid()}-odradek")

    async def answer(http: HttpRequest) -> Response:
        try:
            requests, is_list = await _requests(http)
        except BadRequest as bad:
            return PlainTextResponse(f"400 (Bad Request)\n\n{bad}\n", 400)
        if any(each.needs_snapshot for each in requests):
            async with snapshot() as readings:
                content = await answered(requests, readings, is_list=is_list)
        else:
            content = await answered(requests, [], is_list=is_list)
        return Response(content, headers={"content-type": JSON, "cache-control": "no-cache"})

    async def answered(requests: list[Request], readings: Snapshot, *, is_list: bool) -> bytes:
        answers = await in_slices(Answering(about, int(time.time())).answers(requests, readings), pause_s)
        return await in_pieces(text(answers if is_list else answers[0]), pause_s)

    methods = ["GET", "POST"]
    return [Route(PATH, answer, methods=methods), Route(f"{PATH}/{{path:path}}", answer, methods=methods)]


async def in_pieces(pieces: Iterable[str], pause_s: float) -> bytes:
    """The whole text, made with a pause after each piece."""
    made = []
    for piece in pieces:
        made.append(piece.encode())
        await asyncio.sleep(pause_s)
    return b"".join(made)


async def _requests(http: HttpRequest) -> tuple[list[Request], bool]:
    if http.method == "POST":
        return from_body(await http.body(), http.query_params)
    return [from_path(http.path_params.get("path", ""), http.query_params)], False
