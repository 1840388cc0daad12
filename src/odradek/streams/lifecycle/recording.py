"""How the queries of an application are doing, on disk while it runs and after it ended.

A thread asks Spark once a second and replaces a small file; it keeps the latest of everything and no history, so the
file does not grow. (A StreamingQueryListener would be called in the middle of Spark's own bus, and not at all while
nothing happens.)
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from odradek.streams.lifecycle.layout import Layout
from odradek.streams.lifecycle.lock import AppLock

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

EVERY_S = 1.0
ERROR_CHARS_MAX = 4_000
_log = logging.getLogger("odradek.streams")

QueryState = Literal["starting", "waiting", "working", "stopped", "failed"]


class Watched(Protocol):
    """A query as the application holds it."""

    @property
    def name(self) -> str: ...

    @property
    def spark(self) -> StreamingQuery: ...

    def problem(self) -> Exception | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRecord:
    name: str
    state: QueryState
    batch: int | None = None  # the last one that is done
    input_rows_per_s: float | None = None
    processed_rows_per_s: float | None = None
    batch_ms: int | None = None
    watermark: str | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    error: str | None = None
    at: str | None = None  # when that batch began


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRecord:
    application: str
    bootstrap: str
    internal_topics: tuple[str, ...]
    pid: int
    started_s: float  # seconds since 1970
    written_s: float
    queries: tuple[QueryRecord, ...]

    def write(self, path: Path) -> None:
        """Readers see the old file or the new one, never a part."""
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


class Tenure:
    """What a running application holds: its lock, and the thread that records how it is doing."""

    def __init__(self, layout: Layout, bootstrap: str, internal_topics: Sequence[str]) -> None:
        self._layout = layout
        self._lock = AppLock(layout)
        self._bootstrap = bootstrap
        known = AppRecord.read(layout.status)
        # Topics of earlier versions of the application too: `reset` must find them.
        self._topics = tuple(sorted({*internal_topics, *(known.internal_topics if known else ())}))
        self._started_s = time.time()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_told = False

    def watch(self, queries: Sequence[Watched]) -> None:
        self._thread = threading.Thread(target=self._record, args=[queries], name="odradek-status", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Before the session stops: the last record says how each query ended."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        self._lock.release()

    def _record(self, queries: Sequence[Watched]) -> None:
        while not self._ending.wait(EVERY_S):
            self._try_to_write(queries)
        self._try_to_write(queries)

    def _try_to_write(self, queries: Sequence[Watched]) -> None:
        """What records must not stop what works: the JVM may be gone, the disk full, for a while."""
        try:
            self._write(queries)
        except Exception:  # noqa: BLE001 the one boundary of this thread
            if not self._is_told:
                _log.exception("the status of %s cannot be written to %s", self._layout.app, self._layout.status)
            self._is_told = True
        else:
            self._is_told = False

    def _write(self, queries: Sequence[Watched]) -> None:
        AppRecord(
            application=self._layout.app,
            bootstrap=self._bootstrap,
            internal_topics=self._topics,
            pid=os.getpid(),
            started_s=self._started_s,
            written_s=time.time(),
            queries=tuple(recorded(query) for query in queries),
        ).write(self._layout.status)


def recorded(query: Watched) -> QueryRecord:
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
    return told(query.name, state, progress, error)


def told(name: str, state: QueryState, progress: Mapping[str, Any], error: str | None) -> QueryRecord:
    """From Spark's progress, the few numbers that tell how a query is doing."""
    operators = progress.get("stateOperators") or []
    return QueryRecord(
        name=name,
        state=state,
        batch=progress["batchId"],
        input_rows_per_s=_rate(progress.get("inputRowsPerSecond")),
        processed_rows_per_s=_rate(progress.get("processedRowsPerSecond")),
        batch_ms=progress.get("batchDuration"),
        watermark=(progress.get("eventTime") or {}).get("watermark"),
        state_rows=sum(operator["numRowsTotal"] for operator in operators) if operators else None,
        state_bytes=sum(operator["memoryUsedBytes"] for operator in operators) if operators else None,
        error=error,
        at=progress["timestamp"],
    )


def _rate(value: float | None) -> float | None:
    """Spark says NaN where nothing can be said."""
    return None if value is None or value != value else round(value, 1)
