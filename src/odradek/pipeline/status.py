"""The status of an application: what it recorded, whether it is still running, and its lag behind its topics."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from odradek.client.admin import Admin
from odradek.client.first_records import FirstRecords
from odradek.pipeline.behind import Behind, behind
from odradek.pipeline.layout import Layout
from odradek.pipeline.lock import Holder, holder_of
from odradek.pipeline.query_record import QueryRecord
from odradek.pipeline.recording import AppRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    record: QueryRecord
    state: str
    behind: Behind | None  # None: nothing committed yet


@dataclass(frozen=True, slots=True, kw_only=True)
class AppStatus:
    application: str
    bootstrap: str
    started_s: float  # seconds since 1970
    runs_in: Holder | None
    queries: tuple[QueryStatus, ...]

    @property
    def is_starting(self) -> bool:
        return self.runs_in is not None and any(query.state == "starting" for query in self.queries)


def status(layout: Layout, cluster: Admin | None) -> AppStatus | None:
    """None for an application that never ran from this state directory. Without a cluster, the lag is left out."""
    record = AppRecord.read(layout.status)
    if record is None:
        return None
    holder = holder_of(layout)
    measured = {} if cluster is None else _measured(layout, record, cluster)
    return AppStatus(
        application=layout.app,
        bootstrap=record.bootstrap,
        started_s=record.started_s,
        runs_in=holder,
        queries=tuple(
            QueryStatus(record=query, state=_state(query, holder), behind=measured.get(query.name))
            for query in record.queries
        ),
    )


def _measured(layout: Layout, record: AppRecord, cluster: Admin) -> dict[str, Behind | None]:
    ends: dict[str, dict[int, int]] = {}
    with closing(FirstRecords(cluster.bootstrap, cluster.config)) as first:
        return {query.name: behind(cluster, first, layout.group(query.name), ends) for query in record.queries}


def _state(query: QueryRecord, holder: Holder | None) -> str:
    """A killed process cannot record its end, but it no longer holds the lock."""
    return "killed" if holder is None and query.state in ("starting", "waiting", "working") else query.state
