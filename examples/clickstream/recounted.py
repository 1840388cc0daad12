"""The expected output of the pipeline, computed from the same records in plain Python: views by time, split at pauses.

It is independent of the application, and has no event time: all records are available from the beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

GAP = timedelta(minutes=30)


def recounted(records: Iterable[Any]) -> dict[str, list[dict[str, Any]]]:
    """Leaves out the visitor of `end_of_day`, whose visit stays open."""
    views: dict[str, list[tuple[datetime, dict[str, Any]]]] = defaultdict(list)
    orders: list[tuple[datetime, dict[str, Any]]] = []
    for record in records:
        if record.topic == "orders":
            orders.append((datetime.fromisoformat(record.value["ordered"]), record.value))
        elif record.key != "nobody":
            views[record.key].append((datetime.fromisoformat(record.value["at"]), record.value))
    visits = [visit for of_visitor in views.values() for visit in _cut(sorted(of_visitor, key=lambda one: one[0]))]
    return {
        "sessions": [_session(visit) for visit in visits],
        "session_orders": [
            _bought(visit, order) for visit in visits for at, order in orders if _is_of(visit, at, order)
        ],
        "campaigns": _campaigns(visits),
    }


Visit = list[tuple[datetime, dict[str, Any]]]


def _cut(views: Visit) -> list[Visit]:
    visits: list[Visit] = []
    for at, view in views:
        if visits and at - visits[-1][-1][0] < GAP:
            visits[-1].append((at, view))
        else:
            visits.append([(at, view)])
    return visits


def _session(visit: Visit) -> dict[str, Any]:
    (began, first), (ended, last) = visit[0], visit[-1]
    return {
        "visitor": first["visitor"],
        "landing": first["page"],
        "exit": last["page"],
        "campaign": first["campaign"],
        "pages": len(visit),
        "conversions": _conversions(visit),
        "seconds": int(ended.timestamp()) - int(began.timestamp()),
        "began": began,
    }


def _conversions(visit: Visit) -> int:
    return [view["page"] for _, view in visit].count("thanks")


def _is_of(visit: Visit, at: datetime, order: dict[str, Any]) -> bool:
    end = visit[-1][0] + GAP - timedelta(microseconds=1)
    return order["visitor"] == visit[0][1]["visitor"] and end - timedelta(hours=2) <= at <= end


def _bought(visit: Visit, order: dict[str, Any]) -> dict[str, Any]:
    began, first = visit[0]
    known = {"visitor": first["visitor"], "campaign": first["campaign"], "landing": first["page"], "began": began}
    return {**known, "order": order["id"], "cents": order["cents"]}


def _campaigns(visits: list[Visit]) -> list[dict[str, Any]]:
    found: dict[tuple[str, datetime], list[Visit]] = defaultdict(list)
    for visit in visits:
        end = visit[-1][0] + GAP - timedelta(microseconds=1)
        found[visit[0][1]["campaign"], end.replace(minute=0, second=0, microsecond=0)].append(visit)
    return [
        {
            "campaign": campaign,
            "visits": len(of),
            "pages": sum(map(len, of)),
            "converted": sum(_conversions(visit) > 0 for visit in of),
            "hour": hour,
        }
        for (campaign, hour), of in found.items()
    ]
