"""An application: routes, errors as JSON, bodies within a limit, no orders from other sites, files from a package."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Lifespan, Scope

from odradek.base.limits import MIB
from odradek.web.errors import HttpError, tell_http_error, tell_starlette_error, tell_unexpected
from odradek.web.guards import BodyLimit, OwnPages

BODY_BYTES_MAX = 1 * MIB


def application(
    routes: Sequence[BaseRoute], *, body_bytes_max: int = BODY_BYTES_MAX, lifespan: Lifespan[Starlette] | None = None
) -> Starlette:
    return Starlette(
        routes=routes,
        middleware=[Middleware(OwnPages), Middleware(BodyLimit, bytes_max=body_bytes_max)],
        exception_handlers={
            HttpError: tell_http_error,
            HTTPException: tell_starlette_error,
            Exception: tell_unexpected,
        },
        lifespan=lifespan,
    )


class PackageFiles(StaticFiles):
    """The files of a package's folder, `index.html` for a folder: `Mount("/", PackageFiles("odradek.demo", "page"))`.

    A browser keeps a copy and asks each time whether it is still right, so an upgrade shows at once.
    """

    def __init__(self, package: str, folder: str = "static") -> None:
        super().__init__(packages=[(package, folder)], html=True)

    def file_response(
        self, full_path: str | PathLike[str], stat_result: object, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)  # type: ignore[arg-type]
        response.headers["cache-control"] = "no-cache"
        response.headers["x-content-type-options"] = "nosniff"
        return response
