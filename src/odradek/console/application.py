"""The console's ASGI application: pages, static files, events, and the few actions of the frame itself."""

from __future__ import annotations

import logging

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from odradek.base.limits import console_form_bytes_max
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.frame import REFRESH_COOKIE, REFRESHES, THEME_COOKIE, THEMES, Console, Page
from odradek.console.jumping import jump
from odradek.console.security import Protected
from odradek.web.application import application
from odradek.web.errors import HttpError, tell_http_error, tell_starlette_error, tell_unexpected
from odradek.web.events import Broadcast, Event
from odradek.web.files import PackageFiles

logger = logging.getLogger(__name__)
YEAR_S = 365 * 86_400
WORDS_CHARS_MAX = 300


class ConsoleApplication:
    def __init__(self, console: Console, pages: tuple[Page, ...]) -> None:
        self._console = console
        self._pages = pages
        self._prefix = console.settings.prefix
        self._news = Broadcast(self._greeting)
        console.collector.listen(self._publish)
        routes: list[BaseRoute] = [
            Mount("/static", PackageFiles("odradek.console")),
            Route("/events", self._events),
            Route("/healthz", self._healthz),
            Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/look", self._look, methods=["POST"]),
            Route("/jump", self._jump),
        ]
        for page in pages:
            routes += page.routes(console)
        errors = {HttpError: self._told, HTTPException: self._told, Exception: self._told}
        under = [Mount(self._prefix, routes=routes)] if self._prefix else routes
        inside = application(under, body_bytes_max=console_form_bytes_max, errors=errors)
        self.app: ASGIApp = Protected(inside, console.guard, self._prefix)

    # News for open pages: the number of the snapshot. The page then fetches itself.

    def _publish(self, snapshot: Snapshot) -> None:
        self._news.publish(snapshot.number, "snapshot")

    def _greeting(self) -> list[Event]:
        return [Event(data=self._console.snapshot.number, name="snapshot")]

    async def _events(self, _request: Request) -> Response:
        return self._news.response()

    async def _healthz(self, _request: Request) -> Response:
        return JSONResponse({"healthy": True})

    # The password

    async def _sign_in(self, request: Request) -> Response:
        console = self._console
        if request.method == "GET":
            return await run_in_threadpool(console.page, request, "sign_in.html", title="Sign in", wrong=False)
        mark = await console.guard.sign_in(request)
        if mark is None:
            return await run_in_threadpool(
                console.page, request, "sign_in.html", title="Sign in", wrong=True, status=403
            )
        response = RedirectResponse(console.to("/"), 303)
        console.guard.signed_in(response, mark)
        return response

    async def _sign_out(self, request: Request) -> Response:
        response = RedirectResponse(self._console.to("/sign-in"), 303)
        self._console.guard.signed_out(request, response)
        return response

    # How pages look: kept in cookies, so that the first byte of a page has the right colours.

    async def _look(self, request: Request) -> Response:
        fields = await self._console.guard.fields(request)
        response = RedirectResponse(self._console.back(fields), 303)
        for cookie, choices, name in ((THEME_COOKIE, THEMES, "theme"), (REFRESH_COOKIE, REFRESHES, "refresh")):
            if fields.get(name) in choices:
                response.set_cookie(
                    cookie, fields[name], max_age=YEAR_S, path=self._prefix or "/", httponly=True, samesite="lax"
                )
        return response

    # The search over the whole cluster

    async def _jump(self, request: Request) -> Response:
        text = request.query_params.get("q", "")[:WORDS_CHARS_MAX]
        found = await run_in_threadpool(jump, text, self._console.snapshot, self._pages)
        return JSONResponse(
            [{"kind": each.kind, "name": each.name, "href": f"{self._prefix}{each.path}"} for each in found],
            headers={"cache-control": "no-store"},
        )

    # Errors: a page for people, JSON for programs

    def _told(self, request: Request, error: Exception) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return _as_json(request, error)
        status, what, why = _sentences(request, error)
        if status >= 500:
            logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return self._console.page(request, "error.html", title=what, what=what, why=why, status=status)


def _as_json(request: Request, error: Exception) -> Response:
    if isinstance(error, HttpError):
        return tell_http_error(request, error)
    if isinstance(error, HTTPException):
        return tell_starlette_error(request, error)
    return tell_unexpected(request, error)


def _sentences(request: Request, error: Exception) -> tuple[int, str, str]:
    if isinstance(error, HttpError):
        return error.status, error.what, error.why
    if isinstance(error, HTTPException):
        why = {404: "there is no page at this address", 405: "this address does not take this request"}
        return error.status_code, request.url.path, why.get(error.status_code, error.detail)
    return 500, "This page has failed", f"{type(error).__name__}; the console's log has more"
