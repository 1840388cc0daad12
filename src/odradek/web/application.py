"""An application with routes, JSON errors, a body limit, and protection against requests from other sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from odradek.base.limits import MIB
from odradek.web.errors import HttpError, tell_http_error, tell_starlette_error, tell_unexpected
from odradek.web.guards import BodyLimit, OwnPages

BODY_BYTES_MAX = 1 * MIB

Tell = Callable[[Request, Exception], Response]
ERRORS: Mapping[type[Exception], Tell] = MappingProxyType(
    {HttpError: tell_http_error, HTTPException: tell_starlette_error, Exception: tell_unexpected}
)


def application(
    routes: Sequence[BaseRoute],
    *,
    body_bytes_max: int = BODY_BYTES_MAX,
    lifespan: Lifespan[Any] | None = None,
    errors: Mapping[type[Exception], Tell] = ERRORS,
) -> ASGIApp:
    """Built from Starlette's parts, not its class `Starlette`: the error pages of that class cost a megabyte.

    `errors` replaces the responses for these types of errors, for an API whose errors have another shape.
    """
    inside = ExceptionMiddleware(Router(routes, lifespan=lifespan), handlers={**ERRORS, **errors})
    guarded = OwnPages(BodyLimit(inside, body_bytes_max))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = app  # without a default the router answers in plain text and raises nothing
        await guarded(scope, receive, send)

    return app
