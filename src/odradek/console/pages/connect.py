"""The list of connectors: state, tasks, rate, lag and errors, and the services that run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.console.collecting.parts import Part
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.connectors.health import events, findings
from odradek.console.connectors.reading import SINK, SOURCE, rate_figure
from odradek.console.connectors.seen import AT_REST, PART, RUNNING, Connect, Connector, connect_of
from odradek.console.frame import Console
from odradek.console.listing import Listing
from odradek.console.pages import connector as one_connector
from odradek.console.pages import connector_form
from odradek.console.pages.pipelines import pipelines_page

EVERY_S = 2.0
# What the filter offers: its name in the address, and the connectors that it keeps.
FILTERS = ("all", "problems", "sources", "sinks", "paused")


def is_kept(connector: Connector, wanted: str) -> bool:
    if wanted == "problems":
        return connector.is_unwell or bool(connector.newly_skipped)
    if wanted == "paused":
        return connector.state in AT_REST
    kind = {"sources": SOURCE, "sinks": SINK}.get(wanted)
    return kind is None or connector.kind == kind


def _severity(connector: Connector) -> int:
    return {"bad": 3, "warn": 2, "": 1}.get(connector.tone, 0)


def _running(connector: Connector) -> int:
    return sum(task.state == RUNNING for task in connector.tasks)


def _routes(console: Console) -> Sequence[BaseRoute]:
    def connectors(request: Request) -> Response:
        connect = connect_of(console.snapshot) or Connect()
        wanted = request.query_params.get("show", "all")
        found = Listing(
            request,
            [each for each in connect.connectors if is_kept(each, wanted)],
            columns={
                "connector": lambda each: each.name,
                "state": _severity,
                "kind": lambda each: each.kind,
                "tasks": lambda each: len(each.tasks),
                "rate": lambda each: each.figures.written_per_s if each.figures else None,
                "lag": lambda each: each.lag,
                "errors": lambda each: each.figures.skipped if each.figures else None,
            },
            down=("state", "tasks", "rate", "lag", "errors"),
            found_in=lambda each: f"{each.name} {each.plugin} {each.kind} {each.shown_state}",
        )
        model: Mapping[str, Any] = {
            "list": found,
            "connect": connect,
            "running": _running,
            "trend": lambda each: console.trend(rate_figure(each)),
            "show": wanted,
            "counts": {name: sum(is_kept(each, name) for each in connect.connectors) for name in FILTERS},
        }
        return console.page(request, "connect.html", title="Connect", **model)

    return [Route("/connect", connectors), *connector_form.routes(console), *one_connector.routes(console)]


def _parts(console: Console) -> Sequence[Part]:
    return [Part(name=PART, every_s=EVERY_S, read=console.connectors.read, findings=findings, events=events)]


def _listed(snapshot: Snapshot) -> Sized | None:
    known = connect_of(snapshot)
    return None if known is None else known.connectors


PAGE = pipelines_page(PART, title="Connect", key="n", routes=_routes, parts=_parts, listed=_listed)
