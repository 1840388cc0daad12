"""Serves the files of a package to a browser."""

from __future__ import annotations

from os import PathLike

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope


class PackageFiles(StaticFiles):
    """The files of a package's folder, `index.html` for a folder: `Mount("/", PackageFiles("odradek.demo", "page"))`.

    A browser keeps a copy and revalidates it each time, so an upgrade is visible at once.
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
