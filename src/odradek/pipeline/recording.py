"""Records the status of an application's queries in a file, while it runs and when it ends.

A thread asks Spark once a second and replaces a small file. The file has only the latest values and no history, so it
does not grow. (Spark calls a StreamingQueryListener from its own listener bus, and not at all while a query is idle.)
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from odradek.pipeline.keeping_up import MicroBatch, Pace, micro_batch
from odradek.pipeline.layout import Layout
from odradek.pipeline.lock import AppLock
from odradek.pipeline.progress_reports import batches_after
from odradek.pipeline.query_record import QueryRecord, QueryState

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

EVERY_S = 1.0
ERROR_CHARS_MAX = 4_000
_log = logging.getLogger("odradek.pipeline")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFigures:
    """The state that a query keeps, and the rows that it dropped as too late."""

    rows: int
    bytes: int
    late_rows: int | None  # dropped as too late, since the query began; None if the total is not known
    event_time: str | None = None  # that the slowest step has reached; None where no step waits for time


class Watched(Protocol):
    """A query as the application holds it."""

    @property
    def name(self) -> str: ...

    @property
    def spark(self) -> StreamingQuery: ...

    def problem(self) -> Exception | None: ...

    def figures(self) -> StateFigures | None:
        """None where Spark keeps the state: then Spark's progress has the figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRecord:
    application: str
    bootstrap: str
    internal_topics: tuple[str, ...]
    pid: int
    started_s: float  # seconds since 1970
    written_s: float
    queries: tuple[QueryRecord, ...]
    starts: int = 1  # of the application, since its state directory was made

    def write(self, path: Path) -> None:
        """Readers see the old file or the new file, never a part of one."""
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(json.dumps(asdict(self), indent=1))
        fresh.replace(path)

    @classmethod
    def read(cls, path: Path) -> AppRecord | None:
        """None before the first run."""
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        queries = tuple(QueryRecord(**query) for query in found.pop("queries"))
        return cls(**{**found, "internal_topics": tuple(found["internal_topics"])}, queries=queries)


class Meter(Protocol):
    """Measures the queries of an application, for its metrics."""

    def last_batch(self, query: str) -> int | None: ...

    def count(self, query: str, batches: Sequence[MicroBatch], last: int | None) -> None:
        """New micro-batches of a query, and the number of the last one."""

    def see(self, records: tuple[QueryRecord, ...], restarts: int) -> None: ...


class Tenure:
    """What a running application holds: its lock, and the thread that records its status.

    The record lists a query as "starting" until it is started, so that `status` can show it.
    """

    def __init__(
        self,
        layout: Layout,
        bootstrap: str,
        internal_topics: Sequence[str],
        queries: Sequence[str] = (),
        every_s: float | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._layout = layout
        self._lock = AppLock(layout)
        self._bootstrap = bootstrap
        known = AppRecord.read(layout.status)
        # Includes the topics of earlier versions of the application: `reset` must find them.
        self._topics = tuple(sorted({*internal_topics, *(known.internal_topics if known else ())}))
        self._starts = known.starts + 1 if known else 1
        self._meter = meter
        self._started_s = time.time()
        self._planned = tuple(queries)
        self._paces = {name: Pace(every_s) for name in queries}
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_told = False
        self._try_to_write(())

    def watch(self, queries: Sequence[Watched]) -> None:
        """Record these queries. The sequence may grow: planned queries that are not in it yet are starting."""
        self._thread = threading.Thread(target=self._record, args=[queries], name="odradek-status", daemon=True)
        self._thread.start()

    def end(self, problem: BaseException | None = None) -> None:
        """Call before the session stops: the last record has the end of each query. `problem`: why none began."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        else:
            self._try_to_write((), problem)
        self._lock.release()

    def _record(self, queries: Sequence[Watched]) -> None:
        while not self._ending.wait(EVERY_S):
            self._try_to_write(queries)
        self._try_to_write(queries)

    def _try_to_write(self, queries: Sequence[Watched], problem: BaseException | None = None) -> None:
        """A failure here must not stop the application: the JVM may be gone or the disk full, perhaps temporarily."""
        try:
            self._write(queries, problem)
        except Exception:  # noqa: BLE001 the one boundary of this thread
            if not self._is_told:
                _log.exception("the status of %s cannot be written to %s", self._layout.app, self._layout.status)
            self._is_told = True
        else:
            self._is_told = False

    def _write(self, queries: Sequence[Watched], problem: BaseException | None) -> None:
        begun = [recorded(query, self._paces.get(query.name), self._meter) for query in queries]
        state: QueryState = "starting" if not self._ending.is_set() else "stopped" if problem is None else "failed"
        error = None if problem is None else str(problem)[:ERROR_CHARS_MAX]
        waiting = [
            QueryRecord(name=name, state=state, error=error)
            for name in self._planned
            if name not in {query.name for query in begun}
        ]
        records = (*begun, *waiting)
        if self._meter is not None:
            self._meter.see(records, self._starts - 1)
        AppRecord(
            application=self._layout.app,
            bootstrap=self._bootstrap,
            internal_topics=self._topics,
            pid=os.getpid(),
            started_s=self._started_s,
            written_s=time.time(),
            queries=records,
            starts=self._starts,
        ).write(self._layout.status)


def recorded(query: Watched, pace: Pace | None = None, meter: Meter | None = None) -> QueryRecord:
    problem = query.problem()
    if problem is not None:
        state: QueryState = "failed"
    elif not query.spark.isActive:
        state = "stopped"
    else:
        state = "working" if query.spark.status["isTriggerActive"] else "waiting"
    progress: Mapping[str, Any] | None = query.spark.lastProgress
    error = str(problem)[:ERROR_CHARS_MAX] if problem is not None else None
    if progress is None:
        return QueryRecord(name=query.name, state="starting" if state == "working" else state, error=error)
    if meter is not None:
        meter.count(query.name, *batches_after(query.spark, meter.last_batch(query.name), progress))
    record = told(query.name, state, progress, error, query.figures())
    if pace is None or not query.spark.isActive:
        return record
    pace.see(micro_batch(progress))
    return replace(record, warning=pace.warning(time.time(), is_working=state == "working"))


def told(
    name: str, state: QueryState, progress: Mapping[str, Any], error: str | None, figures: StateFigures | None = None
) -> QueryRecord:
    """The status of a query, from Spark's progress report."""
    kept = figures or _of_spark(progress.get("stateOperators") or ())
    spent = progress.get("durationMs") or {}
    return QueryRecord(
        name=name,
        state=state,
        batch=progress["batchId"],
        input_rows_per_s=_input_rate(progress),
        processed_rows_per_s=_rate(progress.get("processedRowsPerSecond")),
        batch_ms=progress.get("batchDuration"),
        planning_ms=spent.get("queryPlanning"),
        execution_ms=spent.get("addBatch"),
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        state_rows=kept.rows if kept else None,
        state_bytes=kept.bytes if kept else None,
        late_rows=kept.late_rows if kept else None,
        event_time=kept.event_time if kept else None,
        error=error,
        at=progress["timestamp"],
    )


def _of_spark(operators: Sequence[Mapping[str, Any]]) -> StateFigures | None:
    if not operators:
        return None
    return StateFigures(
        rows=sum(operator["numRowsTotal"] for operator in operators),
        bytes=sum(operator["memoryUsedBytes"] for operator in operators),
        late_rows=None,  # Spark counts them by micro-batch
    )


def _input_rate(progress: Mapping[str, Any]) -> float | None:
    """Spark divides by the time since the micro-batch before, and reports 0 for the first one."""
    rate = _rate(progress.get("inputRowsPerSecond"))
    return None if not rate and progress.get("numInputRows") else rate


def _rate(value: float | None) -> float | None:
    """Spark reports NaN for an unknown rate."""
    return None if value is None or value != value else round(value, 1)
