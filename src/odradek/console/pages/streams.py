"""Streams applications: the list, and one application with its picture, its queries and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.console.applications.health import events, findings
from odradek.console.applications.reading import Reader, lag_figure, rate_figure
from odradek.console.applications.seen import PART, TONES, Application, Applications, State, applications_of
from odradek.console.collecting.parts import Part
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.frame import Console, not_found
from odradek.console.listing import Listing
from odradek.console.pages.pipelines import pipelines_page
from odradek.pipeline.picture import Picture, svg

EVERY_S = 2.0
# What the filter offers: its name in the address, and the applications that it keeps.
FILTERS = ("all", "running", "problems", "stopped")
# A column of the topic of dead letters: why the record could not be processed.
REASON = 'header["__streams.errors.message"]'
QUERY_TONES = {"working": "good", "waiting": "good", "starting": "info", "failed": "bad"}


def is_kept(app: Application, wanted: str) -> bool:
    if wanted == "running":
        return app.is_running
    if wanted == "problems":
        return app.state in (State.FAILED, State.SILENT, State.BEHIND)
    return app.state is State.STOPPED if wanted == "stopped" else True


def _routes(console: Console) -> Sequence[BaseRoute]:
    def applications(request: Request) -> Response:
        known = applications_of(console.snapshot) or Applications()
        wanted = request.query_params.get("show", "all")
        found = Listing(
            request,
            [each for each in known.known if is_kept(each, wanted)],
            columns={
                "application": lambda each: each.name,
                "state": lambda each: each.severity,
                "queries": lambda each: len(each.queries),
                "rate": lambda each: each.in_per_s,
                "lag": lambda each: each.lag,
                "seconds": lambda each: each.seconds_behind,
                "size": lambda each: each.state_bytes,
                "late": lambda each: each.late_rows,
                "letters": lambda each: each.dead_letters,
            },
            down=("state", "queries", "rate", "lag", "seconds", "size", "late", "letters"),
            found_in=lambda each: f"{each.name} {each.state} {' '.join(query.name for query in each.queries)}",
        )
        return console.page(
            request,
            "streams.html",
            title="Streams",
            list=found,
            known=known,
            reason=REASON,
            trend=lambda each: console.trend(rate_figure(each.name)),
            show=wanted,
            counts={name: sum(is_kept(each, name) for each in known.known) for name in FILTERS},
        )

    def application(request: Request) -> Response:
        name = request.path_params["name"]
        known = (applications_of(console.snapshot) or Applications()).named(name)
        if known is None:
            raise not_found("application", name, "no application of this name has told this cluster about itself")
        points = console.collector.history.points
        model: dict[str, Any] = {
            "app": known,
            "reason": REASON,
            "picture": drawn(known.picture),
            "tones": TONES,
            "query_tones": QUERY_TONES,
            "lags": [(name, points(lag_figure(name)))],
            "topics": console.snapshot.topics,
        }
        return console.page(request, "application.html", title=name, **model)

    return [Route("/streams", applications), Route("/streams/{name:path}", application)]


def drawn(picture: Picture | None) -> Markup | None:
    """`svg` escapes every text of the picture, and has neither styles nor scripts."""
    return None if picture is None else Markup(svg(picture, inside_page=True))  # noqa: S704


def _parts(console: Console) -> Sequence[Part]:
    reader = Reader(console.cluster, console.collector.history)
    return [Part(name=PART, every_s=EVERY_S, read=reader.read, findings=findings, events=events)]


def _listed(snapshot: Snapshot) -> Sized | None:
    known = applications_of(snapshot)
    return None if known is None else known.known


PAGE = pipelines_page(PART, title="Streams", key="s", routes=_routes, parts=_parts, listed=_listed)
