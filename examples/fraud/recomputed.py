"""The expected output of the pipeline, computed in plain Python: a loop over the records in order of arrival.

It is independent of the application: the rules are written again, in another way. It shares only the documented order
with the engine: rows in the order of their arrival, and timers before the row that moves time past them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

SILENT_S, LATE_S = 15 * 60, 30


def recomputed(records: Iterable[Any]) -> dict[str, list[dict[str, Any]]]:
    alerts: list[dict[str, Any]] = []
    sessions: list[dict[str, Any]] = []
    history: dict[str, list[tuple[float, dict[str, Any] | None]]] = defaultdict(list)  # names of customers
    open_sessions: dict[str, dict[str, Any]] = {}
    small: dict[str, list[float]] = defaultdict(list)
    place: dict[str, tuple[complex, float]] = {}
    newest = 0.0
    for record in records:
        if record.topic == "customers":
            history[record.key].append((record.arrived.timestamp(), record.value))
            continue
        row = record.value
        card, cents, at = row["card"], row["cents"], datetime.fromisoformat(row["at"]).timestamp()
        newest = max(newest, at)
        silent = [of for of, one in open_sessions.items() if one["ended"] + SILENT_S <= newest - LATE_S]
        sessions += [open_sessions.pop(of) for of in silent]

        one = open_sessions.setdefault(card, {"card": card, "payments": 0, "cents": 0, "began": at, "ended": at})
        one["payments"] += 1
        one["cents"] += cents
        one["began"], one["ended"] = min(one["began"], at), max(one["ended"], at)

        raised = []
        small[card] = [then for then in small[card] if at - then <= 300]
        if cents >= 50_000 and len(small[card]) >= 3:
            raised.append(("card testing", len(small[card])))
            small[card] = []
        elif cents <= 500:
            small[card].append(at)
        here = complex(row["x_km"], row["y_km"])
        there, then = place.get(card, (here, at))
        place[card] = here, at
        if abs(here - there) > abs(at - then) / 3600 * 900:
            raised.append(("impossible travel", round(abs(here - there))))
        known = [value for since, value in history[card] if since <= at]
        customer = (known[-1] if known else None) or {"name": None, "phone": None}
        alerts += [
            {"card": card, "kind": kind, "payment": row["id"], "cents": cents, "figure": figure}
            | {"name": customer["name"], "phone": customer["phone"]}
            for kind, figure in raised
        ]
    return {"alerts": alerts, "card_sessions": sessions}
