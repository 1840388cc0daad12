"""An application at work: its session, its topics, its queries, and how all of it ends."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeGuard

from odradek.client.admin import Admin
from odradek.client.java_names import librdkafka_config
from odradek.spark.session import local_session
from odradek.streams.compiling import Compilation
from odradek.streams.delivering import Delivery, check_sinks
from odradek.streams.durations import interval
from odradek.streams.errors import PipelineError, StreamsError
from odradek.streams.explanations import explained_failure, explaining
from odradek.streams.lifecycle.layout import Layout
from odradek.streams.lifecycle.recording import Tenure
from odradek.streams.lifecycle.steps import keep_to_the_steps
from odradek.streams.nodes import Topic
from odradek.streams.planning import Query
from odradek.streams.settings import Settings
from odradek.streams.signals import Signals
from odradek.streams.sinks import DeadLetters, Materialize, Sink, TopicSink
from odradek.streams.views import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from odradek.streams.app import App

POLL_S = 0.5
FIRST_BATCH_S = 30.0
IDLE = "Waiting for data to arrive"  # in Spark's words
START_POLL_S = 0.02
START_ATTEMPTS = 3
REPORT_EVERY_S = 10.0
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningQuery:
    plan: Query
    spark: StreamingQuery
    delivery: Delivery

    @property
    def name(self) -> str:
        return self.plan.name

    def problem(self) -> StreamsError | None:
        failure = self.spark.exception()
        if failure is None:
            return None
        if isinstance(self.delivery.problem, StreamsError):
            return self.delivery.problem
        steps = {node.name: node for sink in self.plan.sinks for node in sink.ancestry()}
        return explained_failure(str(self.delivery.problem or failure), self.plan.trunk, steps)


class RunningApp:
    """The queries of an application. A query that failed makes `check` and `await_*` raise why."""

    def __init__(
        self, app: App, settings: Settings, session: SparkSession, tenure: Tenure, *, owns_session: bool
    ) -> None:
        self.app = app
        self.settings = settings
        self.session = session
        self.queries: list[RunningQuery] = []
        self._views: dict[str, View] = {}
        self._tenure = tenure
        self._owns_session = owns_session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def active(self) -> bool:
        return any(query.spark.isActive for query in self.queries)

    def check(self) -> None:
        """Raises what stopped the first query that failed."""
        for query in self.queries:
            if (problem := query.problem()) is not None:
                raise problem

    def await_all_processed(self, timeout_s: float = 60.0) -> None:
        """Until everything that was in the topics when this was called has gone through all queries."""
        deadline = time.monotonic() + timeout_s
        for query in self.queries:  # in the order in which topics flow: what one writes the next one finds
            self._await_processed(query, deadline)

    def await_termination(self) -> None:
        """Until all queries have ended by themselves or one has failed."""
        while self.active:
            self.check()
            for query in self.queries:
                if query.spark.isActive:
                    _ended(query, POLL_S)
                    break
        self.check()

    def view(self, name: str) -> View:
        """What `materialize(name)` keeps, by key. It follows its changelog from the first time it is asked for."""
        if name not in self._views:
            topics = {sink.view: sink.topic for sink in self.app.graph.sinks if isinstance(sink, Materialize)}
            if name not in topics:
                known = ", ".join(sorted(topics)) or "none"
                raise StreamsError(f"the application {self.app.name} has no view {name!r}; its views: {known}")
            view = View(
                self.settings.bootstrap,
                topics[name],
                Layout(self.settings.state_dir, self.app.name).view_store(name),
                name=name,
                config=librdkafka_config(self.settings.config),
            )
            view.start()
            self._views[name] = view
        return self._views[name]

    def stop(self) -> None:
        """Ends the queries at once: a micro-batch that is interrupted so is run again by the next start."""
        for view in self._views.values():
            view.stop()
        self._views.clear()
        for query in self.queries:
            with contextlib.suppress(Exception):  # it may have failed, or its JVM is gone
                query.spark.stop()
        self._tenure.end()
        if self._owns_session:
            self.session.stop()

    def _await_processed(self, query: RunningQuery, deadline: float) -> None:
        done = threading.Event()

        def wait() -> None:
            with contextlib.suppress(Exception):  # the query failed, and says why in check
                if query.plan.follows_the_clock:
                    _await_batch_without_rows(query, deadline)
                else:
                    query.spark.processAllAvailable()
            done.set()

        threading.Thread(target=wait, name=f"await-{query.name}", daemon=True).start()
        finished = done.wait(max(0.0, deadline - time.monotonic()))
        self.check()
        if not finished:
            raise TimeoutError(f"{query.name} did not catch up in time: {query.spark.status}")


def start(
    app: App,
    settings: Settings,
    session: SparkSession | None,
    *,
    available_now: bool = False,
    signals: Signals | None = None,
) -> RunningApp:
    """All queries, or those that were started when a signal came."""
    queries = app.queries()
    _require_an_end(app, queries, available_now=available_now)
    internal = [sink.topic for sink in app.graph.sinks if isinstance(sink, Materialize)]
    layout = Layout(settings.state_dir, app.name)
    tenure = Tenure(layout, settings.bootstrap, internal)
    try:
        keep_to_the_steps(layout, queries)
        create_topics(queries, settings)
        session_in_use = session_for(app, settings, session)
        if signals is not None:
            signals.take()
        if session is None:
            spread_state(queries, settings, session_in_use)
    except BaseException:
        tenure.end()
        raise
    running = RunningApp(app, settings, session_in_use, tenure, owns_session=session is None)
    tenure.watch(running.queries)
    try:
        for query in queries:
            if signals is not None and signals.stop.is_set():
                break
            running.queries.append(
                _started(app, settings, running.session, query, available_now=available_now, signals=signals)
            )
            if available_now:  # what it writes must be there before those that read it look for what there is
                running.await_termination()
        if available_now:  # done: the next run may begin while this one is still asked for its views
            tenure.end()
    except BaseException:
        running.stop()
        raise
    return running


def _require_an_end(app: App, queries: tuple[Query, ...], *, available_now: bool) -> None:
    """Rows have somewhere to go, and a run that is to be done can be."""
    if not queries:
        raise PipelineError(
            f"the application {app.name} has no sink, so there is nothing to run",
            instead='.to("topic"), .materialize("view"), .foreach(function) on a stream or table',
            origin=app.origin,
        )
    if available_now and (endless := next((query for query in queries if query.follows_the_clock), None)):
        raise PipelineError(
            f"{endless.name} never is done with what is available",
            why='its timers="processing" go on with the clock of the wall',
            instead='timers="event", or a start without trigger_available_now',
            origin=endless.trunk.origin,
        )


def run(app: App, settings: Settings, session: SparkSession | None) -> None:
    from odradek.streams.progress import Progress

    progress = Progress(app)
    progress.starting(settings)
    with Signals(progress.stopping) as signals, start(app, settings, session, signals=signals) as running:
        if not signals.stop.is_set():
            progress.started(running)
        while running.active and not signals.stop.wait(POLL_S):
            running.check()
            progress.now_and_then(running)
        running.check()


def session_for(app: App, settings: Settings, session: SparkSession | None) -> SparkSession:
    from pyspark.logger import PySparkLogger

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # as below
    for logger in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        # they print what Spark throws, JVM stack and all, before anybody can explain it
        PySparkLogger.getLogger(logger).setLevel("CRITICAL")
    in_use = session or local_session(app.name, master=settings.master, conf=settings.conf)
    check_time_zone(str(in_use.conf.get("spark.sql.session.timeZone")))
    return in_use


def check_time_zone(zone: str) -> None:
    if zone not in ("UTC", "Etc/UTC", "GMT", "Z", "+00:00"):
        raise PipelineError(
            f"the time zone of the Spark session is {zone}",
            why="times without a zone in records and SQL, and windows of a day, would mean another moment in each zone",
            instead='session.conf.set("spark.sql.session.timeZone", "UTC"), or no such line in conf=',
        )


def create_topics(queries: tuple[Query, ...], settings: Settings) -> None:
    """Those that sinks write and nobody has made yet. What is read must be there, unless this application writes it."""
    cluster = Admin(settings.bootstrap, librdkafka_config(settings.config))
    made = [sink for query in queries for sink in query.sinks if _makes_its_topic(sink)]
    known = {*cluster.topics(), *(sink.topic for sink in made)}
    for query in queries:
        for node in query.trunk.ancestry():
            if isinstance(node, Topic) and node.topic not in known:
                raise PipelineError(
                    f"there is no topic {node.topic!r} on {settings.bootstrap}",
                    instead=f"odradek topic create {node.topic}, or start first what writes it",
                    origin=node.origin,
                )
    for sink in made:
        if isinstance(sink, DeadLetters):
            cluster.create_topic(sink.topic)
        else:
            cluster.create_topic(sink.topic, sink.partitions or -1, sink.config)


def _makes_its_topic(sink: Sink) -> TypeGuard[TopicSink | Materialize | DeadLetters]:
    return isinstance(sink, Materialize | DeadLetters) or (isinstance(sink, TopicSink) and sink.create)


def spread_state(queries: tuple[Query, ...], settings: Settings, session: SparkSession) -> None:
    """On a cluster for which nobody said how: into as many parts as the widest topic that is read has partitions.

    Rows do not come in more parallel than that, and every micro-batch would visit each of Spark's 200 parts. A query
    that has a checkpoint keeps the number it began with.
    """
    if session.sparkContext.getConf().contains(SHUFFLE_PARTITIONS):
        return
    cluster = Admin(settings.bootstrap, librdkafka_config(settings.config))
    topics = {topic for query in queries for topic in query.reads}
    widest = max((len(cluster.partitions(topic)) for topic in topics), default=0)
    if widest:
        session.conf.set(SHUFFLE_PARTITIONS, widest)


def group_of(app: str, query: str) -> str:
    return Layout("", app).group(query)


def _started(
    app: App,
    settings: Settings,
    session: SparkSession,
    query: Query,
    *,
    available_now: bool,
    signals: Signals | None,
) -> RunningQuery:
    layout = Layout(settings.state_dir, app.name)
    group = layout.group(query.name)
    compilation = Compilation(session, settings, group, query.trunk, records=query.calls_python)
    dead = any(isinstance(sink, DeadLetters) and sink.inputs == (query.trunk,) for sink in query.sinks)
    frame = compilation.outcome(query.trunk) if dead else compilation.frame(query.trunk)
    check_sinks(query, compilation)
    delivery = Delivery(query, settings, group)
    writer = (
        frame.writeStream.queryName(group)
        .outputMode("update" if query.emit == "updates" else "append")
        .option("checkpointLocation", layout.checkpoint(query.name))
        .foreachBatch(delivery)
    )
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif settings.every is not None:
        writer = writer.trigger(processingTime=interval(settings.every))
    for _ in range(START_ATTEMPTS):
        with explaining(query.trunk):
            running = RunningQuery(plan=query, spark=writer.start(), delivery=delivery)
        if _came_up(running, signals):
            break
    return running


def _came_up(query: RunningQuery, signals: Signals | None) -> bool:
    """Waits until the query has done something or has nothing to do, or until nobody wants it any more.

    Queries that start together fight for the cores: the first results come later, and Spark gives a Python process no
    more than ten seconds to come up. False when that was not enough, which is the machine's fault and not the query's.
    """
    deadline = time.monotonic() + FIRST_BATCH_S
    while query.spark.isActive and time.monotonic() < deadline:
        if query.spark.lastProgress is not None or query.spark.status["message"] == IDLE:
            return True
        if signals is not None and signals.stop.is_set():
            return True
        time.sleep(START_POLL_S)
    failure = query.spark.exception()
    return failure is None or "Python worker failed to connect back" not in str(failure)


def _await_batch_without_rows(query: RunningQuery, deadline: float) -> None:
    """For queries that run one micro-batch after the other: Spark never sees those as done.

    The batch after the next began after this was called, so what was there then is in it or before it.
    """
    last = query.spark.lastProgress
    began = last["batchId"] + 2 if last else 1
    while query.spark.isActive and time.monotonic() < deadline:
        last = query.spark.lastProgress
        if last and last["batchId"] >= began and not last["numInputRows"]:
            return
        time.sleep(START_POLL_S)


def _ended(query: RunningQuery, timeout_s: float) -> None:
    with contextlib.suppress(Exception):  # a query that failed says why in check
        query.spark.awaitTermination(timeout_s)  # type: ignore[arg-type]  # Spark takes fractions of a second too
