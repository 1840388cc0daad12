"""The alerts of the platform, firing ones first: what each means, the next step, and what opened and closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.console import alert_findings
from odradek.console.alert_findings import path_of
from odradek.console.collecting.alerts import (
    EVERY_S,
    AlertReader,
    Instance,
    KnownAlert,
    KnownAlerts,
    State,
    action_for,
    instances,
)
from odradek.console.collecting.parts import Part
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.frame import Console, Page, not_found
from odradek.console.listing import Listing

PART = "alerts"
FILTERS = (
    ("all", "All"),
    ("firing", "Firing"),
    ("pending", "Pending"),
    ("quiet", "Quiet"),
    ("not-evaluated", "Not evaluated"),
)
TONES = {State.FIRING: "bad", State.PENDING: "warn", State.QUIET: "good", State.NOT_EVALUATED: ""}
FIRING_MAX, PAST_MAX = 20, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    known: KnownAlert

    @property
    def since_ms(self) -> int | None:
        return min((each.since_ms for each in self.known.instances), default=None)

    def is_kept(self, wanted: str) -> bool:
        return wanted == "all" or self.known.state.word.replace(" ", "-") == wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One alert that fires or is about to, as the page shows it."""

    known: KnownAlert
    one: Instance
    path: str
    subject: str


def known_alerts(snapshot: Snapshot) -> KnownAlerts:
    found = snapshot.parts.get(PART)
    return found if isinstance(found, KnownAlerts) else KnownAlerts(at_ms=snapshot.at_ms)


def _routes(console: Console) -> Sequence[BaseRoute]:
    def alerts(request: Request) -> Response:
        known = known_alerts(console.snapshot)
        wanted = request.query_params.get("show", "all")
        rows = [Row(known=each) for each in known.alerts]
        found = Listing(
            request,
            [each for each in rows if each.is_kept(wanted)],
            columns={
                "state": lambda row: (row.known.state, not row.known.is_critical),
                "name": lambda row: row.known.alert.name,
                "severity": lambda row: not row.known.is_critical,
                "since": lambda row: row.since_ms,
                "for": lambda row: row.known.alert.for_seconds,
            },
            down=("for",),
            found_in=lambda row: f"{row.known.alert.name} {row.known.group} {row.known.alert.expression}",
        )
        firing = [_shown(each, one) for each, one in instances(known.alerts, State.FIRING)]
        return console.page(
            request,
            "alerts.html",
            title="Alerts",
            known=known,
            firing=firing[:FIRING_MAX],
            more=max(len(firing) - FIRING_MAX, 0),
            list=found,
            show=wanted,
            filters=FILTERS,
            counts={name: sum(each.is_kept(name) for each in rows) for name, _ in FILTERS},
            tones=TONES,
            past=known.past[:PAST_MAX],
            sentence=_sentence(rows),
            subject=subject,
        )

    def alert(request: Request) -> Response:
        known = known_alerts(console.snapshot)
        found = known.named(request.path_params["name"])
        if found is None:
            raise not_found("alert", request.path_params["name"], "the list of alerts shows those there are")
        return console.page(
            request,
            "alert.html",
            title=found.alert.name,
            known=found,
            # With several subjects, the command cannot name one of them.
            action=found.instances[0].action if len(found.instances) == 1 else action_for(found.alert, {}, None),
            where=[_shown(found, one) for one in found.instances],
            past=[each for each in known.past if each.name == found.alert.name],
            tones=TONES,
            subject=subject,
        )

    return [Route("/alerts", alerts), Route("/alerts/{name}", alert)]


def _shown(known: KnownAlert, one: Instance) -> Shown:
    return Shown(known=known, one=one, path=path_of(known, one), subject=subject(one.labels))


def subject(labels: Mapping[str, str]) -> str:
    """What an alert is about, from the labels of its series."""
    named = [text for name, text in labels.items() if name not in ("job", "cluster", "instance", "quantile") and text]
    told = [labels["instance"], *named] if "instance" in labels else named
    return ", ".join(told) or "the cluster"


def _sentence(rows: Sequence[Row]) -> str:
    by_state = {state: sum(row.known.state is state for row in rows) for state in State}
    firing = by_state[State.FIRING]
    told = ["No alert fires" if not firing else "1 alert fires" if firing == 1 else f"{firing} alerts fire"]
    if by_state[State.PENDING]:
        told.append(f"{by_state[State.PENDING]} pending")
    if by_state[State.NOT_EVALUATED]:
        told.append(f"{by_state[State.NOT_EVALUATED]} cannot be evaluated here")
    return ", ".join(told) + "."


def _parts(console: Console) -> Sequence[Part]:
    reader = AlertReader(
        console.nodes.url,
        console.settings.nodes_http,
        console.settings.connect,
        time_factor=console.settings.alert_time_factor,
    )
    return [Part(name=PART, every_s=EVERY_S, read=reader.read, findings=alert_findings.findings)]


def _is_there(snapshot: Snapshot) -> bool:
    return PART in snapshot.parts


def _count(snapshot: Snapshot) -> int | None:
    """How many fire; nothing if none does."""
    return len(known_alerts(snapshot).firing) or None


PAGE = Page(
    name="alerts",
    title="Alerts",
    path="/alerts",
    icon="alerts",
    key="a",
    section="Cluster",
    routes=_routes,
    is_there=_is_there,
    parts=_parts,
    count=_count,
)
