"""Errors of requests as JSON: `{"status": 404, "what": …, "why": …}`."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_log = logging.getLogger("odradek.web")


class HttpError(Exception):
    """Raised by an endpoint: what failed, and why or what to do instead."""

    def __init__(self, status: int, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.status, self.what, self.why = status, what, why

    def response(self) -> JSONResponse:
        return JSONResponse({"status": self.status, "what": self.what, "why": self.why}, self.status)


def tell_http_error(_request: Request, error: Exception) -> Response:
    return error.response() if isinstance(error, HttpError) else tell_unexpected(_request, error)


def tell_starlette_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return tell_unexpected(request, error)
    told = HttpError(
        error.status_code, f"{request.method} {request.url.path}", _WHY.get(error.status_code, error.detail)
    )
    response = told.response()
    response.headers.update(error.headers or {})
    return response


def tell_unexpected(request: Request, error: Exception) -> Response:
    """For a bug: the log gets the traceback; the caller gets the exception's type and no details."""
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return HttpError(
        500, f"{request.method} {request.url.path}", f"{type(error).__name__}; the server's log has more"
    ).response()


_WHY = {
    404: "there is nothing at this path",
    405: "this path does not take this method",
}
