"""What a person at a terminal sees of a running application."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence

from odradek.export.exporting import ProcessMetrics
from odradek.streams.graph.application import Application
from odradek.streams.graph.settings import Settings
from odradek.streams.graph.sinks import LakeTable
from odradek.streams.run.queries import RunningQuery

REPORT_EVERY_S = 10.0


class Progress:
    """Lines on standard error: what was started, how fast rows come now and then, what was stopped."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._began = self._reported = time.monotonic()
        self._seen: dict[str, int] = {}

    def starting(self, settings: Settings) -> None:
        where = settings.master or "this machine"
        self._say(f"starting on {where}, topics on {settings.bootstrap}, state in {settings.state_dir}")

    def measured(self, metrics: ProcessMetrics) -> None:
        if metrics.url is not None:
            self._say(f"metrics on {metrics.url}")

    def started(self, queries: Sequence[RunningQuery]) -> None:
        for query in queries:
            reads = ", ".join(sorted(query.plan.reads)) or "a DataFrame"
            tables = [sink.path for sink in query.plan.sinks if isinstance(sink, LakeTable)]
            writes = ", ".join([*sorted(query.plan.writes), *tables]) or "Python"
            self._say(f"  {query.name}: {reads} -> {writes}")
        took = time.monotonic() - self._began
        self._say(f"running after {took:.1f} s; Ctrl-C stops it, and the next run goes on from there")

    def now_and_then(self, queries: Sequence[RunningQuery]) -> None:
        if time.monotonic() - self._reported < REPORT_EVERY_S:
            return
        self._reported = time.monotonic()
        rates = [(query.name, query.spark.lastProgress) for query in queries]
        busy = [(name, last["processedRowsPerSecond"]) for name, last in rates if last and last["numInputRows"]]
        parts = [f"{name} {rate:.0f} rows/s" for name, rate in busy]
        if parts and sys.stderr.isatty():
            self._say("; ".join(parts))

    def stopping(self) -> None:
        with contextlib.suppress(RuntimeError):  # a signal came while a line was being written
            self._say("stopping; press Ctrl-C again to stop immediately")

    def _say(self, line: str) -> None:
        sys.stderr.write(f"{self._app.name}: {line}\n")
        sys.stderr.flush()
