"""The first page: is all well, and if not, what to do."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.console.frame import Console, Page


def _routes(console: Console) -> Sequence[BaseRoute]:
    def overview(request: Request) -> Response:
        return console.page(request, "overview.html", title="Overview")

    return [Route("/", overview)]


PAGE = Page(name="overview", title="Overview", path="/", icon="overview", key="o", section="Cluster", routes=_routes)
