"""Appends gathered rows to tables of files: rows and the number of their last micro-batch are one commit.

The driver does it, beside the queries. A micro-batch never waits for a table.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.lake.names import divided
from odradek.lake.table import PackageMissing, Part, Span, Table, TableTakenOver, TableUnavailable
from odradek.pipeline.errors import PipelineError, StreamsError
from odradek.pipeline.layout import Layout
from odradek.streams.engine.store import Run
from odradek.streams.graph.planning import Query
from odradek.streams.graph.settings import Settings
from odradek.streams.graph.sinks import LakeTable
from odradek.streams.run.durable import write_durably
from odradek.streams.run.gathered import TAKEN_BYTES_MAX, Gathered, Waiting, first_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

RETRY_S, RETRY_MAX_S = 1.0, 60.0
_log = logging.getLogger("odradek.streams")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the checkpoint of Spark says about its query."""

    path: Path

    @property
    def query_id(self) -> str | None:
        """None before the first start."""
        metadata = self.path / "metadata"
        return str(json.loads(metadata.read_text())["id"]) if metadata.exists() else None

    @property
    def committed(self) -> int:
        """The last micro-batch that Spark has committed, -1 if none."""
        return self._last("commits")

    @property
    def planned(self) -> int:
        return self._last("offsets")

    def _last(self, folder: str) -> int:
        return max((int(path.name) for path in (self.path / folder).glob("[0-9]*")), default=-1)


@dataclass(slots=True)
class TableFeed:
    """One sink: its rows on their way from files of the query into the table."""

    sink: LakeTable
    table: Table
    layout: Layout
    query: str
    problem: StreamsError | None = None
    _bound: tuple[str, Span | None] | None = None  # the source's name in the table, and its last append
    _failures: int = 0
    _retry_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, run: Run, columns: StructType) -> None:
        """Before the query starts. `columns`: of the rows."""
        with self._told():
            self._check_columns(columns)
            if self._checkpoint.query_id is not None:
                self._bind(self._checkpoint.query_id)
        self._gathered.begin(run)

    def append_due(self) -> None:
        """Appends what has waited long enough, or is enough for a file. If the table is not available: later."""
        if self.problem is not None or time.monotonic() < self._retry_at:
            return
        try:
            self._append(now=False)
        except TableUnavailable as failed:
            delay = min(RETRY_MAX_S, RETRY_S * 2**self._failures)
            self._failures += 1
            self._retry_at = time.monotonic() + delay
            _log.warning("%s: %s; its rows wait on disk, next attempt in %.0f s", self.sink.name, failed, delay)
        except Exception as failed:  # noqa: BLE001 libraries of formats have many; the application ends with it
            self.problem = self._explained(failed)
        else:
            self._failures = 0

    def append_all(self) -> None:
        """Appends all rows of committed micro-batches."""
        if self.problem is not None:
            raise self.problem
        with self._told():
            self._append(now=True)

    def end(self) -> None:
        """After the query has stopped. What cannot be appended now waits for the next start."""
        try:
            self.append_all()
        except StreamsError as failed:
            _log.warning("%s: the last rows wait on disk for the next start: %s", self.sink.name, failed)

    # --- appending

    def _append(self, *, now: bool) -> None:
        with self._lock:
            query_id = self._checkpoint.query_id
            if query_id is None:
                return
            source, last = self._bind(query_id)
            while waiting := self._due(0 if last is None else last.end, now=now):
                last = Span(-1 if last is None else last.end, waiting[-1].batch + 1)
                self._append_rows(source, waiting, last)
                self._bound = source, last
                self._gathered.forget(last.end)

    def _due(self, begin: int, *, now: bool) -> list[Waiting]:
        waiting = self._gathered.waiting(begin, self._checkpoint.committed)
        if not waiting:
            return []
        taken = first_of(waiting, TAKEN_BYTES_MAX)
        is_full = len(taken) < len(waiting)
        is_old = waiting[0].age_s >= self.sink.gather.total_seconds()
        return taken if now or is_full or is_old else []

    def _append_rows(self, source: str, waiting: list[Waiting], span: Span) -> None:
        import pyarrow as pa

        from odradek.lake.columns import Columns

        columns = Columns(self.table.columns())
        rows = pa.concat_tables([rows for one in waiting for rows in one.rows()])
        rows = columns.complete([columns.typed(rows)])
        self.table.append([Part(source=source, span=span, rows=rows)], columns.schema)

    # --- whose rows these are

    def _bind(self, query_id: str) -> tuple[str, Span | None]:
        """The name of the checkpoint is part of the source's name: after a reset, all rows are written again."""
        if self._bound is None:
            self._check_owner(query_id)
            source = f"{self.layout.group(self.query)}/{self.sink.name}/{query_id}"
            last = self.table.span(source)
            if last is not None and last.end > self._checkpoint.planned + 1:
                raise self._refused(
                    f"they are of micro-batch {last.end - 1}, and the checkpoint ends at {self._checkpoint.planned}"
                )
            write_durably(self.layout.owner_of_tables(self.query), query_id)
            self._gathered.forget(0 if last is None else last.end)
            self._bound = source, last
        return self._bound

    def _check_owner(self, query_id: str | None) -> None:
        owner = self.layout.owner_of_tables(self.query)
        if owner.exists() and owner.read_text() != query_id:
            raise self._refused("the checkpoint was deleted or replaced")

    def _refused(self, why: str) -> PipelineError:
        return PipelineError(
            f"{self.query} has written rows to {self.sink.path} that its checkpoint does not know",
            why=f"{why}; it is {self._checkpoint.path}",
            instead=f"the newest checkpoint, restored; or `odradek streams reset {self.layout.app}`, to begin again "
            "and append all rows again",
            origin=self.sink.origin,
        )

    def _check_columns(self, columns: StructType) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        from odradek.lake.columns import Columns

        self._check_owner(self._checkpoint.query_id)
        Columns(self.table.columns()).typed(to_arrow_schema(columns, timezone="UTC").empty_table())

    # --- names and errors

    @property
    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(Path(self.layout.checkpoint(self.query)))

    @property
    def _gathered(self) -> Gathered:
        return Gathered(Path(self.layout.tables(self.query)) / self.sink.folder)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except StreamsError:
            raise
        except Exception as failed:
            raise self._explained(failed) from failed

    def _explained(self, failed: Exception) -> StreamsError:
        return failed if isinstance(failed, StreamsError) else explained(failed, self.sink)


def explained(failed: Exception, sink: LakeTable) -> PipelineError:
    instead = "a start when it can; rows that were read wait on disk"
    match failed:
        case PackageMissing():
            instead = "pip install 'odradek[lake]'"
        case TableTakenOver():
            instead = "one application of this name and state directory at a time"
        case ValueError():
            instead = "other columns, another path, or other options"
    return PipelineError(
        f"the table {sink.path} ({sink.format}) cannot be written",
        why=str(failed) or type(failed).__name__,
        instead=instead,
        origin=sink.origin,
    )


def open_tables(queries: tuple[Query, ...], settings: Settings, layout: Layout) -> Mapping[str, tuple[TableFeed, ...]]:
    """The feeds of each query. PipelineError if a table cannot be reached."""
    return {
        query.name: tuple(
            TableFeed(sink, opened(sink, settings), layout, query.name)
            for sink in query.sinks
            if isinstance(sink, LakeTable)
        )
        for query in queries
    }


def opened(sink: LakeTable, settings: Settings) -> Table:
    path, options = sink.path, sink.options
    if settings.tables is not None:
        path, options = f"{settings.tables}/{zlib.crc32(path.encode())}/{divided(path)[1]}", {}
    folder, name = divided(path)
    try:
        from odradek.lake.opening import tables_of

        table = tables_of(folder, sink.format, sink.partition_by, options).table(name)
        table.columns()  # a storage that does not answer is an error at once
    except Exception as failed:
        raise explained(failed, sink) from failed
    return table
