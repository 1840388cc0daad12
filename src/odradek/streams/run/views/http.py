"""Views over HTTP, for programs without a Kafka client.

    GET /views                                  all views and how far they are
    GET /views/{name}?prefix=&after=&limit=     rows in the order of their keys, fewer if they are large; `next` goes on
    GET /views/{name}/{key}                     one row

Keys are text (of several columns a JSON object), or with `?keys=base64` URL-safe base64. A value that is JSON comes as
such, any other as `value_base64`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from odradek.base.limits import MIB
from odradek.streams.run.views.view import View
from odradek.web.errors import HttpError

ROWS_DEFAULT = 100
ROWS_MAX = 10_000
PAGE_BYTES = 8 * MIB
KeyForm = Literal["text", "base64"]


def view_routes(views: Sequence[View]) -> list[Route]:
    by_name = {view.name: view for view in views}

    async def list_views(_request: Request) -> Response:
        return JSONResponse([await run_in_threadpool(_told, view) for view in by_name.values()])

    async def list_rows(request: Request) -> Response:
        view, form = _asked_view(by_name, request), _key_form(request)
        limit = _limit(request)
        prefix, after = request.query_params.get("prefix", ""), request.query_params.get("after")
        behind = None if after is None else _bytes(after, form)
        scan = view.scan(_bytes(prefix, form), after=behind)
        found, is_full = await run_in_threadpool(_page, scan, limit)
        rows = [_row(key, value, form) for key, value in found]
        return JSONResponse({"rows": rows, "next": _next(found[-1][0], form) if is_full else None})

    async def one_row(request: Request) -> Response:
        view, form = _asked_view(by_name, request), _key_form(request)
        asked = request.path_params["key"]
        key = _key(view, asked, form)
        value = view.get(key)  # microseconds: not worth a thread
        if value is None:
            far = "" if view.following else "; it is still loading, so the row may come"
            raise HttpError(404, f"no row {asked!r}", f"the view {view.name!r} has no such key{far}")
        return JSONResponse(_row(key, value, form))

    return [
        Route("/views", list_views),
        Route("/views/{name}", list_rows),
        Route("/views/{name}/{key:path}", one_row),
    ]


def _key(view: View, asked: str, form: KeyForm) -> bytes:
    """A key of several columns is JSON, in any order and with or without spaces."""
    raw = _bytes(asked, form)
    if form == "text" and asked.startswith("{") and view.get(raw) is None:
        with contextlib.suppress(ValueError):  # no JSON, or other columns: there is no such row
            return view.key_bytes(json.loads(asked))
    return raw


def _asked_view(views: Mapping[str, View], request: Request) -> View:
    name = request.path_params["name"]
    if name not in views:
        there_are = ", ".join(sorted(views)) or "none at all"
        raise HttpError(404, f"no view {name!r}", f"there are {there_are}")
    return views[name]


def _key_form(request: Request) -> KeyForm:
    form = request.query_params.get("keys", "text")
    if form == "text":
        return "text"
    if form == "base64":
        return "base64"
    raise HttpError(400, f"keys={form}", "keys are text or base64")


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(ROWS_DEFAULT))
    if not text.isdecimal() or not 1 <= int(text) <= ROWS_MAX:
        raise HttpError(400, f"limit={text}", f"it is a number from 1 to {ROWS_MAX}; `next` of an answer goes on")
    return int(text)


def _told(view: View) -> dict[str, object]:
    status = view.status()
    return {
        "name": status.name,
        "topic": status.topic,
        "state": status.state,
        "rows": status.rows,
        "bytes_on_disk": status.bytes_on_disk,
        "positions": {str(partition): offset for partition, offset in sorted(status.positions.items())},
        "problem": status.problem,
    }


def _page(rows: Iterable[tuple[bytes, bytes]], limit: int) -> tuple[list[tuple[bytes, bytes]], bool]:
    """And whether there may be more."""
    page, size = [], 0
    for key, value in rows:
        page.append((key, value))
        size += len(key) + len(value)
        if len(page) == limit or size >= PAGE_BYTES:
            return page, True
    return page, False


def _row(key: bytes, value: bytes, form: KeyForm) -> dict[str, object]:
    row: dict[str, object] = {"key": _text(key, form)}
    if row["key"] is None:
        row["key_base64"] = _base64(key)
    try:
        row["value"] = json.loads(value)
        # Python reads more than JSON has (NaN, half a surrogate pair), and what is nested too deep it does not read.
        json.dumps(row["value"], allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        row.pop("value", None)
        row["value_base64"] = _base64(value)
    return row


def _text(key: bytes, form: KeyForm) -> str | None:
    """None: these bytes are no text."""
    if form == "base64":
        return _base64(key)
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


def _next(last: bytes, form: KeyForm) -> str:
    text = _text(last, form)
    if text is None:
        raise HttpError(409, "the page ends at a key that is no text", "ask with keys=base64, or for another limit")
    return text


def _bytes(text: str, form: KeyForm) -> bytes:
    if form == "text":
        return text.encode()
    try:
        return base64.b64decode(text, altchars="-_", validate=True)
    except binascii.Error:
        raise HttpError(400, f"{text!r} is not a key", "with keys=base64 it is URL-safe base64, padded") from None


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()
