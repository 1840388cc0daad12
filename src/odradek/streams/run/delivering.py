"""What happens to a micro-batch of a query: each sink takes its part, in the order in which sinks were written.

A micro-batch that fails is run again from the beginning. Tasks that have written their records write none again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from odradek.pipeline import formats
from odradek.streams.compile.calling import LETTERS, Calling, EachRow
from odradek.streams.compile.compiling import Compilation, delivery, steps_between
from odradek.streams.compile.explanations import explained_call, explaining
from odradek.streams.compile.failures import failed_rows, for_spark
from odradek.streams.compile.gathering import GatherRows, run_folder
from odradek.streams.compile.python_rows import with_record
from odradek.streams.compile.topology.projecting import keeps_windows, record_of, table_columns
from odradek.streams.engine.store import Run
from odradek.streams.graph.nodes import MapPandas, MapRows, Node
from odradek.streams.graph.planning import Query
from odradek.streams.graph.settings import Settings
from odradek.streams.graph.sinks import DeadLetters, ForeachBatch, ForeachRow, LakeTable, Materialize, Sink, TopicSink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


NOTHING = "nothing string"


class MicroBatchWriter:
    """The function that Spark calls with each micro-batch of a query."""

    def __init__(self, query: Query, settings: Settings, group: str, tables: str, run: Run) -> None:
        """`tables`: where rows for tables of files are gathered."""
        self._tables, self._run = tables, run
        self._query = query
        self._settings = settings
        self._group = group
        self.problem: Exception | None = None  # what went wrong here, as it was: Spark keeps its text alone

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self._write_to_sinks(batch, batch_id)
        except Exception as problem:  # noqa: BLE001 it goes on to Spark in other words
            self.problem = problem
            raise for_spark(problem) from None

    def _write_to_sinks(self, batch: DataFrame, batch_id: int) -> None:
        rows = self._below(batch)
        asked_twice = len(self._query.sinks) > 1 or isinstance(self._query.sinks[0], DeadLetters)
        shared = [batch] if asked_twice else []
        shared += [rows.outcome(node) for node in mapped_twice(self._query)]
        for frame in shared:
            frame.persist()
        try:
            for sink in self._query.sinks:
                below = self._below(as_changelog(batch)) if takes_changes(sink, self._query) else rows
                self._hand_over(sink, below, batch_id)
        finally:
            for frame in reversed(shared):
                frame.unpersist()

    def _below(self, batch: DataFrame) -> Compilation:
        """Compiles the steps below the trunk for one micro-batch."""
        return Compilation(
            batch.sparkSession,
            self._settings,
            self._group,
            self._query.trunk,
            {self._query.trunk: batch},
            records=self._query.calls_python,
        )

    def _hand_over(self, sink: Sink, compilation: Compilation, batch_id: int) -> None:
        (upstream,) = sink.inputs
        match sink:
            case DeadLetters() if isinstance(upstream, ForeachRow):
                pass  # what a sink gives up it writes itself
            case DeadLetters():
                letters = formats.dead_letters(failed_rows(compilation.outcome(upstream)), upstream.name)
                if not letters.isEmpty():  # the rule, and much cheaper to find out than to write nothing
                    self._write(letters, sink, sink.topic)
            case TopicSink() | Materialize():
                with explaining(sink):
                    records = encoded(sink, compilation.frame(upstream))
                self._write(records, sink, sink.topic)
            case LakeTable():
                rows = compilation.frame(upstream)
                gather = GatherRows(run_folder(self._tables, sink.folder, self._run), batch_id)
                rows.select(*named(table_columns(rows, sink))).mapInArrow(gather, NOTHING).collect()
            case ForeachRow():
                self._call(sink, compilation.frame(upstream))
            case ForeachBatch():
                rows = compilation.frame(upstream).drop("_record")
                try:
                    sink.function(rows, batch_id)
                except Exception as problem:
                    raise explained_call(problem, sink) from problem

    def _call(self, sink: ForeachRow, rows: DataFrame) -> None:
        letters = with_record(rows).drop("_deleted").mapInArrow(EachRow(Calling.of(sink)), LETTERS)
        if sink.dlq is None:
            letters.collect()
        else:
            self._write(letters, sink, sink.dlq)

    def _write(self, records: DataFrame, sink: Sink, topic: str) -> None:
        options = {"kafka.bootstrap.servers": self._settings.bootstrap, "topic": topic}
        options |= {f"kafka.{name}": value for name, value in self._settings.config.items()}
        options |= delivery(self._settings, self._group, f"sink-{self._query.sinks.index(sink)}")
        records.write.format("odradek").options(**options).mode("append").save()


def takes_changes(sink: Sink, query: Query) -> bool:
    """Whether a row that a filter no longer accepts must go from a view.

    It stays if a Python function is in between: the function is not called with rejected rows, so its result is
    unknown.
    """
    between = steps_between(query.trunk, sink)
    return keeps_windows(sink, query.trunk) and not any(isinstance(step, MapRows | MapPandas) for step in between)


def as_changelog(rows: DataFrame) -> DataFrame:
    """A filter that stops to accept a row then deletes it, instead of leaving what was there before."""
    return rows if "_deleted" in rows.columns else rows.withColumn("_deleted", F.lit(False))


def mapped_twice(query: Query) -> list[Node]:
    """Python functions below the trunk whose outcome several steps or sinks take: better run once."""
    takers: dict[Node, set[Node]] = {}
    for sink in query.sinks:
        for node in sink.ancestry():
            for upstream in node.inputs:
                takers.setdefault(upstream, set()).add(node)
    above = set(query.trunk.ancestry())
    shared = [node for node, by in takers.items() if len(by) > 1 and node not in above]
    return [node for node in shared if isinstance(node, MapRows | MapPandas)]


def encoded(sink: TopicSink | Materialize, rows: DataFrame) -> DataFrame:
    condition, columns = record_of(rows, sink)
    return rows.where(condition).select(*columns)


def named(columns: Sequence[str]) -> list[Column]:
    return [F.col(f"`{name}`") for name in columns]


def check_sinks(query: Query, compilation: Compilation) -> None:
    """What is wrong below the trunk is said before the query starts, not by its first micro-batch."""
    for sink in query.sinks:
        if isinstance(sink, DeadLetters):
            continue
        rows = compilation.frame(sink.inputs[0])
        if isinstance(sink, LakeTable):
            table_columns(rows, sink)
        if isinstance(sink, TopicSink | Materialize):
            with explaining(sink):
                encoded(sink, rows)
