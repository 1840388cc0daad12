"""Sends requests that change something from a service that stands by to the active service of its group."""

from __future__ import annotations

import asyncio
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from odradek.base.hosts import CONNECT_ERRORS
from odradek.connect.service.requests import Refused, Requests

FORWARD_S = 60.0
SETTLE_S = 10.0
LOOK_S = 0.1
FORWARDED = "x-odradek-forwarded"

Endpoint = Callable[[Request], Awaitable[Response]]


def to_the_active(requests: Requests, endpoint: Endpoint) -> Endpoint:
    """The endpoint here if this service is active, else the same request at the active one.

    A service that has just started is about to become active: the request waits for that.
    """

    async def answer(request: Request) -> Response:
        deadline = time.monotonic() + SETTLE_S
        while not requests.is_active:
            if FORWARDED in request.headers:
                raise Refused(409, "Cannot complete request: the active service of this group is changing. Retry soon.")
            active = await run_in_threadpool(requests.active_worker)
            if active is not None and active != requests.worker:
                return await run_in_threadpool(_forwarded, active, request, await request.body())
            if time.monotonic() > deadline:
                raise Refused(409, "Cannot complete request: no service of this group is active yet. Retry soon.")
            await asyncio.sleep(LOOK_S)
        return await endpoint(request)

    return answer


def _forwarded(active: str, request: Request, body: bytes) -> Response:
    query = f"?{request.url.query}" if request.url.query else ""
    url = f"http://{active}{request.scope['raw_path'].decode()}{query}"
    headers = {"content-type": "application/json", FORWARDED: "true"}
    asked = urllib.request.Request(url, body or None, headers, method=request.method)
    try:
        with urllib.request.urlopen(asked, timeout=FORWARD_S) as answer:  # noqa: S310 (http)
            return Response(answer.read(), answer.status, media_type=answer.headers.get("content-type"))
    except urllib.error.HTTPError as refused:
        return Response(refused.read(), refused.code, media_type=refused.headers.get("content-type"))
    except (*CONNECT_ERRORS, http.client.HTTPException) as unreachable:  # HTTPException: also an invalid address
        raise Refused(500, f"IO Error trying to forward REST request to {active}: {unreachable}") from None
