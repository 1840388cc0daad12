"""How an application is doing: what it recorded, whether it is still there, and how far behind its topics it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from odradek.client.admin import Admin
from odradek.streams.lifecycle.layout import Layout
from odradek.streams.lifecycle.lock import Holder, holder_of
from odradek.streams.lifecycle.recording import AppRecord, QueryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    record: QueryRecord
    state: str
    lag: Mapping[str, int] | None  # records not yet processed, by topic; None: nothing committed yet


@dataclass(frozen=True, slots=True, kw_only=True)
class AppStatus:
    application: str
    bootstrap: str
    runs_in: Holder | None
    queries: tuple[QueryStatus, ...]


def status(layout: Layout, cluster: Admin | None) -> AppStatus | None:
    """None for an application that never ran from here. Without a cluster the lags are left out."""
    record = AppRecord.read(layout.status)
    if record is None:
        return None
    holder = holder_of(layout)
    ends: dict[str, dict[int, int]] = {}
    return AppStatus(
        application=layout.app,
        bootstrap=record.bootstrap,
        runs_in=holder,
        queries=tuple(
            QueryStatus(
                record=query,
                state=_state(query, holder),
                lag=None if cluster is None else _lag(cluster, layout.group(query.name), ends),
            )
            for query in record.queries
        ),
    )


def _state(query: QueryRecord, holder: Holder | None) -> str:
    """A process that was killed could not write that it is gone: the lock knows."""
    return "killed" if holder is None and query.state in ("starting", "waiting", "working") else query.state


def _lag(cluster: Admin, group: str, ends: dict[str, dict[int, int]]) -> dict[str, int] | None:
    committed = cluster.committed(group)
    if not committed:
        return None
    existing = set(cluster.topics(include_internal=True))
    behind: Counter[str] = Counter()
    for (topic, partition), offset in committed.items():
        if topic in existing:
            if topic not in ends:
                ends[topic] = cluster.end_offsets(topic)
            behind[topic] += max(0, ends[topic].get(partition, offset) - offset)
    return dict(behind)
