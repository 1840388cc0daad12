"""An application at work: its session, its topics, its queries, and how all of it ends."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from odradek.client.java_names import librdkafka_config
from odradek.pipeline.errors import PipelineError, StreamsError
from odradek.pipeline.java_end import java_end_told
from odradek.pipeline.layout import Layout
from odradek.pipeline.recording import Meter, Tenure
from odradek.pipeline.session import session_for
from odradek.pipeline.signals import Signals
from odradek.pipeline.starting import await_batch_without_rows, await_end
from odradek.spark.session import with_more_slots
from odradek.streams.graph.application import Application
from odradek.streams.graph.planning import Query
from odradek.streams.graph.settings import Settings
from odradek.streams.graph.sinks import LakeTable, Materialize
from odradek.streams.run.announcing import announcing
from odradek.streams.run.checkpoint_steps import keep_to_the_steps
from odradek.streams.run.committed import await_committed
from odradek.streams.run.guarantees import deciding
from odradek.streams.run.guests import Guest
from odradek.streams.run.measuring import measured
from odradek.streams.run.progress import Progress
from odradek.streams.run.queries import RunningQuery, start_query
from odradek.streams.run.tables import open_tables
from odradek.streams.run.topics import create_topics, spread_state
from odradek.streams.run.views import View
from odradek.web.listening import CannotListen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


POLL_S = 0.5
TEND_S = 1.0
COMMITTED_WITHIN_S = 60.0
WORKER_MODULES = ("odradek.streams.compile.topology.operators",)


class RunningApp:
    """The queries of an application. A query that failed makes `check` and `await_*` raise why."""

    def __init__(
        self,
        app: Application,
        settings: Settings,
        session: SparkSession,
        tenure: Tenure,
        guest: Guest | None = None,
        *,
        owns_session: bool,
    ) -> None:
        self.app = app
        self.settings = settings
        self.session = session
        self.queries: list[RunningQuery] = []
        self._views: dict[str, View] = {}
        self._tenure = tenure
        self._guest = guest
        self._stopped = threading.Event()
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
        """Until everything that was in the topics when this was called is processed by all queries, and in tables."""
        deadline = time.monotonic() + timeout_s
        for number, query in enumerate(self.queries):  # as topics flow: what one writes the next one finds
            self._await_processed(query, deadline)
            await_committed(self.settings, self._read_later(number), deadline)
        for query in self.queries:
            query.append_all()

    def await_termination(self) -> None:
        """Until all queries have ended by themselves or one has failed."""
        while self.active:
            self.check()
            for query in self.queries:
                if query.spark.isActive:
                    await_end(query.spark, POLL_S)
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

    def tend(self) -> None:
        """Look after the queries until they are stopped."""
        threading.Thread(target=self._tend, name="odradek-tending", daemon=True).start()
        if self._has_tables:
            threading.Thread(target=self._append, name="odradek-tables", daemon=True).start()

    @property
    def _has_tables(self) -> bool:
        return any(isinstance(sink, LakeTable) for sink in self.app.graph.sinks)

    def _append(self) -> None:
        """In a thread of its own: a slow storage must not hold up the tuning of queries."""
        while not self._stopped.wait(TEND_S):
            for query in list(self.queries):
                query.append_due()

    def _tend(self) -> None:
        while not self._stopped.wait(TEND_S):
            for query in list(self.queries):
                with contextlib.suppress(Exception):  # it may have ended just now, and says why in check
                    query.tend()

    def stop(self) -> None:
        """Ends the queries at once: a micro-batch that is interrupted so is run again by the next start."""
        self._stopped.set()
        for view in self._views.values():
            view.stop()
        self._views.clear()
        for query in self.queries:
            query.stop()
        self._tenure.end()
        if self._guest is not None:
            self._guest.leave()
        if self._owns_session:
            self.session.stop()

    def _read_later(self, number: int) -> list[str]:
        """The topics that a query writes and a later one reads."""
        later = [query.plan for query in self.queries[number + 1 :]]
        return [topic for topic in self.queries[number].plan.writes if any(plan.takes_from([topic]) for plan in later)]

    def _await_processed(self, query: RunningQuery, deadline: float) -> None:
        done = threading.Event()

        def wait() -> None:
            with contextlib.suppress(Exception):  # the query failed, and says why in check
                if query.plan.follows_the_clock:
                    await_batch_without_rows(query.spark, deadline)
                else:
                    query.spark.processAllAvailable()
            done.set()

        threading.Thread(target=wait, name=f"await-{query.name}", daemon=True).start()
        finished = done.wait(max(0.0, deadline - time.monotonic()))
        self.check()
        if not finished:
            raise TimeoutError(f"{query.name} did not catch up in time: {query.spark.status}")


def start(
    app: Application,
    settings: Settings,
    session: SparkSession | None,
    *,
    available_now: bool = False,
    signals: Signals | None = None,
    meter: Meter | None = None,
    guest: Guest | None = None,
) -> RunningApp:
    """Starts all queries. If a signal arrives meanwhile, the rest is not started."""
    queries = app.queries(settings)
    _require_an_end(app, queries, available_now=available_now)
    internal = [sink.topic for sink in app.graph.sinks if isinstance(sink, Materialize)]
    layout = Layout(settings.state_dir, app.name)
    every_s = None if settings.every is None else settings.every.total_seconds()
    tenure = Tenure(layout, settings.bootstrap, internal, [query.name for query in queries], every_s, meter)
    try:
        keep_to_the_steps(layout, queries)
        create_topics(queries, settings)
        tables = open_tables(queries, settings, layout)
        decision = deciding(app, queries, settings)
        session_in_use = _session(app.name, settings, session, guest)
        if signals is not None:
            signals.take()
        settings = _settled(decision, session_in_use, owns_session=session is None)
        if session is None:
            spread_state(queries, settings, session_in_use)
    except BaseException as problem:
        if guest is not None:
            guest.leave()
        tenure.end(problem if isinstance(problem, Exception) else None)
        raise
    running = RunningApp(app, settings, session_in_use, tenure, guest, owns_session=session is None)
    tenure.watch(running.queries)
    running.tend()
    try:
        for query in queries:
            if signals is not None and signals.stop.is_set():
                break
            running.queries.append(
                start_query(
                    app,
                    settings,
                    running.session,
                    query,
                    tables[query.name],
                    available_now=available_now,
                    signals=signals,
                )
            )
            if (
                available_now
            ):  # its output must be complete before a later query, which may read it, looks for the end offsets
                running.await_termination()
                running.queries[-1].append_all()
                written = [topic for topic in query.writes if any(other.takes_from([topic]) for other in queries)]
                await_committed(settings, written, time.monotonic() + COMMITTED_WITHIN_S)
        if available_now:  # done: the next run may begin while this one is still asked for its views
            tenure.end()
    except BaseException:
        running.stop()
        raise
    return running


def _session(name: str, settings: Settings, given: SparkSession | None, guest: Guest | None) -> SparkSession:
    if guest is None:
        return session_for(name, settings.master, settings.conf, given, WORKER_MODULES)
    guest.prepare()
    modules = (*WORKER_MODULES, *guest.worker_modules)
    master, conf = with_more_slots(settings.master, settings.conf, guest.slots)
    session = session_for(name, master, conf, given, modules)
    guest.use(session)
    return session


def _settled(decision: Future[Settings], session: SparkSession, *, owns_session: bool) -> Settings:
    try:
        return decision.result()
    except BaseException:
        if owns_session:
            session.stop()
        raise


def _require_an_end(app: Application, queries: tuple[Query, ...], *, available_now: bool) -> None:
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


def run(app: Application, settings: Settings, session: SparkSession | None, guest: Guest | None = None) -> None:
    progress = Progress(app)
    progress.starting(settings)
    with java_end_told(), ExitStack() as stack:
        metrics, meter = measured(app, settings)
        try:
            stack.enter_context(metrics)
        except CannotListen as taken:
            raise StreamsError(str(taken.strerror)) from taken
        progress.measured(metrics)
        stack.enter_context(announcing(app, settings, metrics.url))
        signals = stack.enter_context(Signals(progress.stopping))
        running = stack.enter_context(start(app, settings, session, signals=signals, meter=meter, guest=guest))
        stack.enter_context(meter.measuring_lag(settings.bootstrap, librdkafka_config(settings.config)))
        if not signals.stop.is_set():
            progress.started(running.queries)
        while running.active and not signals.stop.wait(POLL_S):
            running.check()
            progress.now_and_then(running.queries)
        running.check()
