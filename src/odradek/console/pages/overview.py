"""The first page: is all well, and if not, why, and what to do. Also the list of recent events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.console.collecting.snapshot import Broker, Group, Snapshot
from odradek.console.frame import Console, Page
from odradek.console.pages.group import TONES
from odradek.console.rendering import count, per_second, share, short, size
from odradek.console.words import counted, plural
from odradek.monitor.cluster_health import DISK_BAD_SHARE, DISK_WARN_SHARE

FINDINGS_MAX = 6
TOP = 5
EVENTS_SHOWN = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    title: str
    value: str
    unit: str
    detail: str
    path: str
    trend: Sequence[float]
    tone: str = "accent"


def disk_tone(used_share: float | None) -> str:
    if used_share is None or used_share < DISK_WARN_SHARE:
        return "accent"
    return "bad" if used_share >= DISK_BAD_SHARE else "warn"


def _routes(console: Console) -> Sequence[BaseRoute]:
    def overview(request: Request) -> Response:
        snapshot = console.snapshot
        visible = ((name, rate) for name, rate in snapshot.rates.items() if name in snapshot.topics)
        topics = nlargest(
            TOP, (each for each in visible if not snapshot.topics[each[0]].is_internal), key=lambda each: each[1]
        )
        return console.page(
            request,
            "overview.html",
            title="Overview",
            tiles=_tiles(console, snapshot),
            findings_max=FINDINGS_MAX,
            lagging=_lagging(snapshot),
            tones=TONES,
            trends={name: console.trend(f"group/{name}") for name, _ in _named(_lagging(snapshot))},
            topics=topics,
            topic_trends={name: console.trend(f"topic/{name}") for name, _ in topics},
            brokers=snapshot.brokers,
            broker_trends={each.broker_id: _traffic(console, each) for each in snapshot.brokers},
            disk_tone=disk_tone,
            events=list(reversed(snapshot.events))[:EVENTS_SHOWN],
            group_count=len(snapshot.groups),
        )

    def events(request: Request) -> Response:
        snapshot = console.snapshot
        return console.page(request, "events.html", title="Events", events=list(reversed(snapshot.events)))

    return [Route("/", overview), Route("/recent", events)]


def _named(groups: Sequence[Group]) -> list[tuple[str, Group]]:
    return [(group.name, group) for group in groups]


def _traffic(console: Console, broker: Broker) -> list[float]:
    return console.trend(f"in/{broker.broker_id}")


def _lagging(snapshot: Snapshot) -> list[Group]:
    behind = [group for group in snapshot.groups.values() if group.lag is not None and group.lag.total_lag]
    behind.sort(
        key=lambda group: (group.lag.worst, group.lag.age.seconds, group.lag.total_lag) if group.lag else (0, 0, 0)
    )
    return behind[::-1][:TOP]


def _tiles(console: Console, snapshot: Snapshot) -> list[Tile]:
    return [
        _records(console, snapshot),
        _bytes(console, snapshot),
        _groups(console, snapshot),
        _health(console, snapshot),
    ]


def _records(console: Console, snapshot: Snapshot) -> Tile:
    stored, visible = snapshot.records, snapshot.visible_topics
    return Tile(
        title="Records written",
        value=per_second(snapshot.records_per_s),
        unit="/s",
        detail=f"{short(stored)} stored in {counted(visible, 'topic')}",
        path="/topics",
        trend=console.collector.totals.values("records"),
    )


def _bytes(console: Console, snapshot: Snapshot) -> Tile:
    incoming = [each.in_per_s for each in snapshot.brokers if each.in_per_s is not None]
    outgoing = [each.out_per_s for each in snapshot.brokers if each.out_per_s is not None]
    stored = sum(each.bytes_logs for each in snapshot.brokers)
    if not incoming:
        fullest = max((each.used_share or 0.0 for broker in snapshot.brokers for each in broker.log_dirs), default=None)
        detail = f"fullest disk {share(fullest)}" if fullest else "all replicas together"
        return Tile(title="Stored", value=size(stored), unit="", detail=detail, path="/brokers", trend=())
    return Tile(
        title="Bytes in",
        value=size(sum(incoming)),
        unit="/s",
        detail=f"{size(sum(outgoing))}/s out, {size(stored)} stored",
        path="/brokers",
        trend=console.collector.totals.values("in"),
    )


def _groups(console: Console, snapshot: Snapshot) -> Tile:
    by_status = {status: sum(each.status == status for each in snapshot.groups.values()) for status in ("WARN", "ERR")}
    unwell = by_status["WARN"] + by_status["ERR"]
    lag = sum(each.lag.total_lag for each in snapshot.groups.values() if each.lag is not None)
    told = ", ".join(f"{number} {status}" for status, number in by_status.items() if number)
    return Tile(
        title="Consumer groups",
        value=count(len(snapshot.groups)),
        unit="",
        detail=(f"{told}, " if told else "all OK, " if snapshot.groups and snapshot.lag_is_known else "")
        + f"{short(lag)} {plural(lag, 'record')} behind",
        path="/groups?show=problems" if unwell else "/groups",
        trend=console.collector.totals.values("lag"),
        tone="bad" if by_status["ERR"] else "warn" if unwell else "accent",
    )


def _health(console: Console, snapshot: Snapshot) -> Tile:
    offline, short_of = snapshot.offline, snapshot.under_replicated
    detail = ", ".join(
        f"{number:,} {what}" for number, what in ((offline, "offline"), (short_of, "under-replicated")) if number
    )
    return Tile(
        title="Partitions",
        value=count(snapshot.partitions),
        unit="",
        detail=detail or "all in sync",
        path="/topics?show=problems" if short_of else "/topics",
        trend=console.collector.totals.values("under-replicated"),
        tone="bad" if offline else "warn" if short_of else "good",
    )


PAGE = Page(name="overview", title="Overview", path="/", icon="overview", key="o", section="Cluster", routes=_routes)
