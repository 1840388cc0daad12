"""One query of an application at work: how it is started, and why it stopped."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from odradek.pipeline.durations import interval
from odradek.pipeline.errors import StreamsError
from odradek.pipeline.layout import Layout
from odradek.pipeline.recording import StateFigures
from odradek.pipeline.signals import Signals
from odradek.pipeline.starting import started
from odradek.streams.compile.compiling import Compilation
from odradek.streams.compile.context import Place
from odradek.streams.compile.explanations import explained_failure, explaining
from odradek.streams.compile.topology.assembling import Assembly
from odradek.streams.compile.topology.condensing import condensed
from odradek.streams.compile.topology.levels import Topology, topology
from odradek.streams.engine.store import Run
from odradek.streams.graph.application import Application
from odradek.streams.graph.nodes import Node, ranked
from odradek.streams.graph.planning import Query
from odradek.streams.graph.settings import Settings
from odradek.streams.graph.sinks import DeadLetters
from odradek.streams.run.delivering import MicroBatchWriter, check_sinks
from odradek.streams.run.durable import write_durably
from odradek.streams.run.figures import ShardFigures
from odradek.streams.run.tables import TableFeed
from odradek.streams.run.tuning import Tuning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


LIMIT = "maxOffsetsPerTrigger"
BATCH_RECORDS = 100_000
"""Of all topics, in a micro-batch, where the user sets no limit: a task keeps the rows of its shard in memory."""

TICK = timedelta(milliseconds=500)
"""Of timers that follow the clock of the wall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningQuery:
    plan: Query
    spark: StreamingQuery
    writer: MicroBatchWriter | None = None  # None: the plan itself writes
    tuning: Tuning = field(default_factory=Tuning)
    tables: tuple[TableFeed, ...] = ()
    shards: ShardFigures | None = None  # None: the state is Spark's, or where the driver cannot read it

    @property
    def name(self) -> str:
        return self.plan.name

    def tend(self) -> None:
        """Now and then: let Spark plan the next micro-batches in a way that suits their size."""
        if self.plan.by_engine and self.spark.isActive:
            self.tuning.suit(self.spark)

    def append_due(self) -> None:
        for table in self.tables:
            table.append_due()

    def append_all(self) -> None:
        """Appends the rows of all committed micro-batches to their tables."""
        for table in self.tables:
            table.append_all()

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # it may have failed, or its JVM is gone
            self.spark.stop()
        for table in self.tables:
            table.end()

    def figures(self) -> StateFigures | None:
        return None if self.shards is None else self.shards.read()

    def problem(self) -> StreamsError | None:
        failure = self.spark.exception()
        if failure is None:
            return next((table.problem for table in self.tables if table.problem is not None), None)
        problem = self.writer.problem if self.writer is not None else None
        if isinstance(problem, StreamsError):
            return problem
        steps = {node.name: node for sink in self.plan.sinks for node in sink.ancestry()}
        return explained_failure(str(problem or failure), self.plan.trunk, steps)


def start_query(
    app: Application,
    settings: Settings,
    session: SparkSession,
    query: Query,
    tables: tuple[TableFeed, ...] = (),
    *,
    available_now: bool,
    signals: Signals | None,
) -> RunningQuery:
    layout = Layout(settings.state_dir, app.name)
    group = layout.group(query.name)
    checkpoint = layout.checkpoint(query.name)
    run = Run(uuid4().hex, last_commit(Path(checkpoint)))
    for table in tables:
        context = Compilation(session, settings, group, query.trunk, dry=True)
        table.begin(run, context.schema_of(table.sink.inputs[0]))
    if query.by_engine:
        writer, stream = None, _by_engine(query, settings, session, layout, run)
    else:
        writer = MicroBatchWriter(query, settings, group, layout.tables(query.name), run)
        stream = _by_spark(query, settings, session, group).foreachBatch(writer)
    stream = stream.queryName(group).option("checkpointLocation", checkpoint)
    if available_now:
        stream = stream.trigger(availableNow=True)
    elif settings.every is not None:
        stream = stream.trigger(processingTime=interval(settings.every))

    def start_it() -> StreamingQuery:
        with explaining(query.trunk):
            return stream.start()

    shards = ShardFigures(Path(layout.shards(query.name))) if query.by_engine and not layout.is_remote else None
    return RunningQuery(plan=query, spark=started(start_it, signals), writer=writer, tables=tables, shards=shards)


def _by_engine(query: Query, settings: Settings, session: SparkSession, layout: Layout, run: Run) -> DataStreamWriter:
    plan = topology(query.sinks)
    group, folder = layout.group(query.name), layout.shards(query.name)
    context = Compilation(session, settings, group, query.trunk, records=query.calls_python, places=places(query, plan))
    wanted = int(str(session.conf.get("spark.sql.shuffle.partitions")))
    is_remote = "://" in folder
    shards = len(plan.topics) if is_remote else kept_shards(Path(folder), wanted)
    frame = Assembly(plan, context, folder, shards, run, layout.tables(query.name)).frame()
    return condensed(frame).writeStream.outputMode("append").format("noop")


def kept_shards(folder: Path, wanted: int) -> int:
    """How many shards there are: as many as there were when the query began, whatever is wanted now.

    Rows stay in their shard, and the rows of a repeated micro-batch in their task.
    """
    path = folder / "count"
    if not path.exists():
        write_durably(path, str(wanted))
    return int(path.read_text())


def last_commit(checkpoint: Path) -> int:
    """The last micro-batch that Spark has committed, -1 if none: the one after it is the first of the next run."""
    return max((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), default=-1)


def places(query: Query, plan: Topology) -> dict[Node, Place]:
    """Where records of a table and of a stream have the same time, the table is first."""
    in_rank = ranked(plan.topics)
    topics = tuple(sorted({name for topic in in_rank for name in topic.topics}))  # those of patterns are not known yet
    limits = [int(topic.options[LIMIT]) for topic in in_rank if LIMIT in topic.options]
    records = min(limits, default=BATCH_RECORDS)
    tick = TICK if query.follows_the_clock else None
    return {
        topic: Place(rank=rank, topics=topics, records=records, tick=None if rank else tick)
        for rank, topic in enumerate(in_rank)
    }


def _by_spark(query: Query, settings: Settings, session: SparkSession, group: str) -> DataStreamWriter:
    compilation = Compilation(session, settings, group, query.trunk, records=query.calls_python)
    dead = any(isinstance(sink, DeadLetters) and sink.inputs == (query.trunk,) for sink in query.sinks)
    frame = compilation.outcome(query.trunk) if dead else compilation.frame(query.trunk)
    check_sinks(query, compilation)
    return frame.writeStream.outputMode("update" if query.emit == "updates" else "append")
