"""The list of consumer groups: status, lag in records and seconds, trend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.console.collecting.snapshot import Group, Snapshot
from odradek.console.frame import Console, Page
from odradek.console.listing import Listing
from odradek.console.pages import group as one_group
from odradek.console.pages.group import TONES

# What the filter offers: its name in the address, and the groups that it keeps.
FILTERS = ("all", "problems", "active", "empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    group: Group
    trend: Sequence[float]

    @property
    def total(self) -> int | None:
        return None if self.group.lag is None else self.group.lag.total_lag

    @property
    def seconds(self) -> float | None:
        return None if self.group.lag is None else self.group.lag.age.seconds

    @property
    def topics(self) -> Sequence[str]:
        return [] if self.group.lag is None else sorted(self.group.lag.lag_by_topic)

    @property
    def severity(self) -> int:
        return {"": 0, "OK": 1, "WARN": 2, "ERR": 3}.get(self.group.status, 0)


def is_kept(group: Group, wanted: str) -> bool:
    if wanted == "problems":
        return group.status in ("WARN", "ERR")
    if wanted == "active":
        return group.state not in ("Empty", "Dead")
    return group.state == "Empty" if wanted == "empty" else True


def _routes(console: Console) -> Sequence[BaseRoute]:
    def groups(request: Request) -> Response:
        snapshot = console.snapshot
        wanted = request.query_params.get("show", "all")
        topic = request.query_params.get("topic", "")
        rows = [
            Row(group=each, trend=())
            for each in snapshot.groups.values()
            if is_kept(each, wanted) and (not topic or (each.lag is not None and topic in each.lag.lag_by_topic))
        ]
        found = Listing(
            request,
            rows,
            columns={
                "group": lambda row: row.group.name,
                "status": lambda row: row.severity,
                "lag": lambda row: row.total,
                "seconds": lambda row: row.seconds,
                "state": lambda row: row.group.state,
                "topics": lambda row: len(row.topics),
            },
            down=("status", "lag", "seconds", "topics"),
            found_in=lambda row: " ".join((row.group.name, *row.topics)),
        )
        return console.page(
            request,
            "groups.html",
            title="Groups",
            list=found,
            rows=[Row(group=row.group, trend=console.trend("group/" + row.group.name)) for row in found.rows],
            tones=TONES,
            show=wanted,
            counts={name: sum(is_kept(each, name) for each in snapshot.groups.values()) for name in FILTERS},
        )

    return [Route("/groups", groups), *one_group.routes(console)]


def _count(snapshot: Snapshot) -> int:
    return len(snapshot.groups)


PAGE = Page(
    name="groups", title="Groups", path="/groups", icon="groups", key="c", section="Data", routes=_routes, count=_count
)
