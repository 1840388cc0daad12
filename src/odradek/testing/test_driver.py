"""TestDriver: a Streams application under test, on a real broker and a real Spark.

    def test_five_violations_make_an_alert(odradek_test_driver):
        with odradek_test_driver(app) as t:
            t.input("truck_events").send(*[{"driverId": 11, "eventType": "Overspeed"}] * 5, at="2026-01-01T00:00:10Z")
            t.advance_time("2026-01-01T00:05:00Z")
            assert t.output("driver_alerts").read_values() == [{"driverId": 11, "violations": 5}]
            assert t.view("alerts_by_driver")[11]["violations"] == 5

The application needs no changes for the test. Its topics are on a separate embedded broker. Its queries run on the
Spark session of the process, which is started once. Reading waits until all queries have processed all sent records.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from odradek.client.abandoned import end_all
from odradek.client.admin import Admin
from odradek.pipeline.layout import Layout
from odradek.spark.session import local_session
from odradek.streams.graph.nodes import Topic
from odradek.streams.graph.settings import Settings
from odradek.streams.graph.sinks import DeadLetters, LakeTable, LateRows, Materialize, TopicSink
from odradek.streams.run.running import RunningApp, start
from odradek.streams.run.tables import opened
from odradek.testing.embedded import Embedded
from odradek.testing.records import InputTopic, OutputTopic, key_text, moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odradek.streams import App

_warm: SparkSession | None = None


def warm_session() -> SparkSession:
    """The Spark session of this process for tests: two cores, started by the first call, stopped at exit."""
    global _warm
    if _warm is None:
        _warm = local_session("odradek-tests", master="local[2]")
        atexit.register(_warm.stop)
    return _warm


class TestDriver:
    """Runs an application between topics that a test fills and reads.

    The application starts with the first call that needs it. Event time moves with the records, as in production, and
    with `advance_time`. `restart` stops the application and starts it again from its checkpoints.
    """

    __test__ = False  # otherwise pytest would collect it as a test class

    def __init__(self, app: App, *, session: SparkSession | None = None) -> None:
        self.app = app
        self._session = session or warm_session()
        self._broker = Embedded()
        self._directory = Path(tempfile.mkdtemp(prefix="odradek-test-driver-"))
        self._running: RunningApp | None = None
        self._outputs: dict[str, OutputTopic] = {}
        self._sent_last: Topic | None = None
        self._ticks = 0

    def __enter__(self) -> Self:
        self._broker.start()
        cluster = Admin(self.bootstrap)
        for node in self.app.graph.topics:
            for topic in node.topics:
                cluster.create_topic(topic)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stop()
        finally:
            for output in self._outputs.values():
                output.close()
            end_all(self.bootstrap)
            self._broker.stop()
            shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def bootstrap(self) -> str:
        """The address of the embedded broker, for your own clients."""
        return self._broker.bootstrap_servers

    # --- input

    def input(self, topic: str) -> InputTopic:
        """A topic that the application reads, to send records to.

        Records are processed before or after a change of a table in the order of the test, whatever their times. So an
        event sees the row that the table had when the test sent it.
        """
        nodes = [node for node in self.app.graph.topics if node.reads(topic)]
        if not nodes:
            known = _listed(node.topic for node in self.app.graph.topics)
            raise KeyError(f"the application reads no topic {topic!r}, only {known}")
        Admin(self.bootstrap).create_topic(topic)  # a topic that only a pattern matches does not exist yet
        return InputTopic(self.bootstrap, topic, nodes[0], before=self._before_sending)

    def advance_time(self, to: str | datetime) -> None:
        """Advance the event time of all streams, as a record with this time would, but without a record.

        Windows whose end and grace have passed emit their final results, timers fire, joins stop waiting. Timers in
        processing time do not fire. Queries advance one after the other, in the order in which topics connect them.
        """
        self.settle()
        self._ticks += 1
        written: set[str] = set()
        for query in self.app.queries():
            if query.takes_from(written):  # so that the output of earlier queries is not late for this one
                self.settle()
                written.clear()
            if query.grace is not None:
                self._tick(self._tick_directory(query.name), moment(to))
            written |= query.writes
        self.settle()

    # --- output

    def output(self, topic: str) -> OutputTopic:
        """A topic that the application writes. Each read returns the records since the last read."""
        if topic not in self._outputs:
            self._outputs[topic] = OutputTopic(self.bootstrap, topic, self._sink_of(topic), before=self.settle)
        return self._outputs[topic]

    def view(self, name: str) -> View:
        """The rows of `materialize(name)`, by key."""
        return View(self, name)

    def table(self, path: str) -> list[dict[str, Any]]:
        """The rows of `to_table(path)`, in no particular order. A test has the tables in a directory of its own."""
        self.settle()
        for sink in self.app.graph.sinks:
            if isinstance(sink, LakeTable) and sink.path == path:
                rows: list[dict[str, Any]] = opened(sink, self._settings).rows().to_pylist()
                return rows
        written = (sink.path for sink in self.app.graph.sinks if isinstance(sink, LakeTable))
        raise KeyError(f"the application writes no table {path!r}, only {_listed(written)}")

    # --- life cycle

    def settle(self) -> None:
        """Wait until all queries have processed all sent records. If a query failed, raises its error."""
        self._started().await_all_processed()

    def restart(self) -> None:
        """Stop the queries and start them again, from their checkpoints."""
        self._stop()
        self._started()

    def _before_sending(self, node: Topic) -> None:
        last, self._sent_last = self._sent_last, node
        if last is not None and last.topic != node.topic and (last.table_key or node.table_key):
            self.settle()

    def _started(self) -> RunningApp:
        if self._running is None:
            for query in self.app.queries():
                self._tick_directory(query.name).mkdir(parents=True, exist_ok=True)
            self._running = start(self.app.application, self._settings, self._session, available_now=False)
        return self._running

    @property
    def _settings(self) -> Settings:
        return self.app.settings.over(
            bootstrap=self.bootstrap,
            state_dir=str(self._directory / "state"),
            tables=str(self._directory / "tables"),
            ticks=str(self._directory / "ticks"),
            config={},  # TLS and passwords of the application are for another broker
        )

    def _tick(self, directory: Path, time: datetime) -> None:
        unfinished = directory / f"_{self._ticks}"  # Spark ignores names that begin with _
        unfinished.write_text(time.isoformat())
        unfinished.rename(directory / f"{self._ticks}.txt")

    def _stop(self) -> None:
        if self._running is not None:
            self._running.stop()
            self._running = None

    def _tick_directory(self, query: str) -> Path:
        return self._directory / "ticks" / Layout("", self.app.name).group(query)

    def _sink_of(self, topic: str) -> TopicSink | Materialize | DeadLetters | LateRows | Topic:
        nodes = (*self.app.graph.sinks, *self.app.graph.topics)
        for node in nodes:
            if isinstance(node, TopicSink | Materialize | DeadLetters | LateRows) and node.topic == topic:
                return node
            if isinstance(node, Topic) and node.reads(topic):
                return node
        written = (n.topic for n in nodes if isinstance(n, TopicSink | Materialize | DeadLetters | LateRows))
        raise KeyError(f"the application writes no topic {topic!r}, only {_listed(written)}")

    def view_rows(self, name: str) -> dict[str, Any]:
        self.settle()
        view = self._started().view(name)
        view.wait_caught_up()
        return {key.decode(): json.loads(value) for key, value in view.scan()}


class View(Mapping[Any, Any]):
    """A materialised table of the application under test: rows as dicts, by key."""

    def __init__(self, driver: TestDriver, name: str) -> None:
        self._driver, self._name = driver, name

    def __getitem__(self, key: object) -> Any:  # noqa: ANN401 what the columns hold
        return self._rows()[key_text(key)]

    def __iter__(self) -> Any:  # noqa: ANN401
        return iter(self._rows())

    def __len__(self) -> int:
        return len(self._rows())

    def _rows(self) -> dict[str, Any]:
        return self._driver.view_rows(self._name)


def _listed(names: Any) -> str:  # noqa: ANN401 any names
    return ", ".join(sorted(set(names))) or "none"
