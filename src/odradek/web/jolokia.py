"""/jolokia: the MBeans of a process by Jolokia's protocol, for clients such as Telegraf, hawtio and jolokia.js."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response

from odradek import __version__
from odradek.base.steps import in_slices
from odradek.monitor.jolokia.answers import About, Answering, text
from odradek.monitor.jolokia.requests import BadRequest, Request, from_body, from_path
from odradek.monitor.registry import Snapshot
from odradek.web.pieces import in_pieces

JSON = "application/json; charset=utf-8"


async def answer(
    http: HttpRequest, snapshot: Callable[[], AbstractAsyncContextManager[Snapshot]], pause_s: float
) -> Response:
    try:
        requests, is_list = await _requests(http)
    except BadRequest as bad:
        return PlainTextResponse(f"400 (Bad Request)\n\n{bad}\n", 400)
    if any(each.needs_snapshot for each in requests):
        async with snapshot() as readings:
            content = await _answered(requests, readings, pause_s, is_list=is_list)
    else:
        content = await _answered(requests, [], pause_s, is_list=is_list)
    return Response(content, headers={"content-type": JSON, "cache-control": "no-cache"})


async def _answered(requests: list[Request], readings: Snapshot, pause_s: float, *, is_list: bool) -> bytes:
    about = About(version=__version__, agent_id=f"{socket.gethostname()}-{os.getpid()}-odradek")
    answers = await in_slices(Answering(about, int(time.time())).answers(requests, readings), pause_s)
    return await in_pieces(text(answers if is_list else answers[0]), pause_s)


async def _requests(http: HttpRequest) -> tuple[list[Request], bool]:
    if http.method == "POST":
        return from_body(await http.body(), http.query_params)
    return [from_path(http.path_params.get("path", ""), http.query_params)], False
