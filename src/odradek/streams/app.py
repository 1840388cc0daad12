"""An application: streams and tables by name, the graph of what is done with them, and how to run it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from odradek.streams.checks import check_choice, check_format
from odradek.streams.durations import Duration, duration
from odradek.streams.errors import Origin, PipelineError
from odradek.streams.expressions import ColumnLike, col
from odradek.streams.graph import Graph
from odradek.streams.lifecycle.layout import Layout
from odradek.streams.nodes import Frame, MapRows, Node, OnError, SchemaOf, Sql, StaticFrame, Topic
from odradek.streams.planning import Query, lateness_of, plan
from odradek.streams.rows import Names, keys_of, names, node_of
from odradek.streams.settings import DEFAULT_BOOTSTRAP, DEFAULT_STATE_DIR, Settings
from odradek.streams.sinks import DeadLetters
from odradek.streams.stream import Stream
from odradek.streams.table import Static, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odradek.streams.formats import Format
    from odradek.streams.running import RunningApp

DEFAULT_LATE = "10 seconds"
EVENT_TIME = "event_time"  # in topics between steps: a record has no other place for it
_APP_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")  # "." and ".." would be the directory of others


class App:
    """A pipeline under one name: it names the checkpoints, the consumer groups and the internal topics.

    Writing an application starts nothing: `run()` and `start()` do, `describe()` shows it.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str = DEFAULT_BOOTSTRAP,
        *,
        state_dir: str = DEFAULT_STATE_DIR,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        every: Duration | None = None,
    ) -> None:
        """`every`: a query looks for new rows at most so often; without it, whenever it is done with the last ones."""
        if not _APP_NAME.fullmatch(name):
            raise PipelineError(
                f"{name!r} cannot be the name of an application",
                why="it is part of directories, consumer groups and topics",
                instead="letters, digits, '.', '_' and '-'",
            )
        self.name = name
        self.settings = Settings(
            bootstrap=bootstrap,
            state_dir=state_dir,
            master=master,
            conf=conf or {},
            config=config or {},
            every=None if every is None else duration(every),
        )
        self.graph = Graph()
        self.origin = Origin.here()

    def __repr__(self) -> str:
        return f"<App {self.name}: {len(self.graph.nodes)} steps>"

    # --- sources

    def stream(
        self,
        topic: str,
        *,
        schema: Any = None,  # noqa: ANN401 whatever formats take
        format: Format | str | None = None,  # noqa: A002 the word of Spark's readers
        time: str | None = None,
        late: Duration = DEFAULT_LATE,
        start: str = "earliest",
        dlq: str | None = None,
        on_error: OnError = "fail",
        key: Names | None = None,
        name: str | None = None,
        **options: str,
    ) -> Stream:
        """The records of a topic, as they come.

        schema: a dataclass, a pydantic model, DDL ("driverId int, speed double"); without one the format is "raw".
        format: "json" (with a schema), "avro", "raw" (the value as it is), "text", "csv", "debezium", or one of
        `odradek.streams.formats` with its options.
        time: the column with the event time; else the record's timestamp. `late`: how much out of order rows may come
        before windows and joins close without them, where the window does not say (grace).
        start: "earliest" or "latest", for the first run; later ones go on where the last one was.
        dlq: the topic for records that cannot be parsed; without one they stop the application, or with
        on_error="skip" are dropped.
        key: the columns that are the record's key. options: any option of the source, as maxOffsetsPerTrigger="10000".
        """
        node = self._topic(
            topic,
            schema,
            format,
            time=time,
            late=late,
            start=start,
            dlq=dlq,
            on_error=on_error,
            name=name,
            options=options,
        )
        return Stream(self, node, names(key) if key is not None else ())

    def table(
        self,
        topic: str,
        *,
        key: Names,
        schema: Any = None,  # noqa: ANN401
        format: Format | str | None = None,  # noqa: A002
        time: str | None = None,
        dlq: str | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
        **options: str,
    ) -> Table:
        """A topic as the changelog of a table: the newest record of a key is its row, a null value deletes it."""
        node = self._topic(
            topic,
            schema,
            format,
            time=time,
            late=DEFAULT_LATE,
            start="earliest",
            dlq=dlq,
            on_error=on_error,
            name=name,
            options=options,
            table_key=names(key),
        )
        return Table(self, node, names(key))

    def from_df(
        self,
        frame: DataFrame | Callable[[SparkSession], DataFrame],
        *,
        time: ColumnLike | None = None,
        late: Duration = DEFAULT_LATE,
        key: Names | None = None,
        name: str | None = None,
    ) -> Any:  # noqa: ANN401 a Stream, or of a batch DataFrame a Static
        """A streaming DataFrame, or a function of the session that makes one, as a stream; `time`: its event time.

        If it has a watermark, that one holds, and not `late` or the grace of windows.
        A batch DataFrame can be joined with: the same as `static`.
        """
        if not callable(frame) and not frame.isStreaming:
            return self.static(frame, name=name)
        node = self.graph.add(Frame, name, frame=frame, time=time, late=duration(late))
        return Stream(self, node, names(key) if key is not None else ())

    def static(self, frame: DataFrame | Callable[[SparkSession], DataFrame], *, name: str | None = None) -> Static:
        """A batch DataFrame, or a function of the session that makes one, to join streams with.

        Files and tables behind it are read anew for each micro-batch, so their new rows are seen.
        """
        return Static(self, self.graph.add(StaticFrame, name, frame=frame))

    def sql(self, query: str, *, name: str | None = None, **streams: Stream | Table) -> Stream:
        """A query in SQL over the streams of the application by topic, and others as given: `app.sql("…", fast=fast)`.

        What is no letter, digit or underscore in a topic's name is an underscore in the query.
        Select `_time` (and `_key`) too if windows or joins by time follow.
        """
        known = {re.sub(r"\W", "_", node.topic): node for node in self.graph.topics} | {
            alias: node_of(rows) for alias, rows in streams.items()
        }
        used = {alias: node for alias, node in known.items() if re.search(rf"\b{re.escape(alias)}\b", query)}
        if not used:
            raise PipelineError(
                "the query names no stream of this application", why=f"there are {', '.join(sorted(known)) or 'none'}"
            )
        return Stream(self, self.graph.add(Sql, name, inputs=tuple(used.values()), query=query, views=tuple(used)), ())

    # --- running

    def run(
        self,
        *,
        bootstrap: str | None = None,
        master: str | None = None,
        state_dir: str | None = None,
        session: SparkSession | None = None,
    ) -> None:
        """Run until Ctrl-C or SIGTERM, or until a query fails. Started again, it goes on where it was."""
        from odradek.streams.running import run

        run(self, self._settings(bootstrap, master, state_dir), session)

    def start(
        self,
        *,
        bootstrap: str | None = None,
        master: str | None = None,
        state_dir: str | None = None,
        session: SparkSession | None = None,
        trigger_available_now: bool = False,
    ) -> RunningApp:
        """Start and return. With `trigger_available_now` it processes what is there and ends."""
        from odradek.streams.running import start

        settings = self._settings(bootstrap, master, state_dir)
        return start(self, settings, session, available_now=trigger_available_now)

    def describe(self) -> str:
        """The queries of this application and their steps, as text."""
        from odradek.streams.lifecycle.describe import describe

        return describe(self)

    def queries(self) -> tuple[Query, ...]:
        """What `run` would start: one Spark query per trunk."""
        return plan(self.graph)

    # --- what streams and tables ask for

    def changelog(self, view: str) -> str:
        """The internal topic that a view lives in."""
        return Layout(self.settings.state_dir, self.name).changelog(view)

    def add_dead_letters(self, node: Node, topic: str | None) -> None:
        if topic is not None:
            self.graph.add(DeadLetters, f"{node.name}-dead-letters", inputs=(node,), topic=topic)

    def frame_of(self, node: Node) -> DataFrame:
        from odradek.streams.compiling import Compilation
        from odradek.streams.running import session_for

        settings = self.settings.from_environment()
        maps = any(isinstance(above, MapRows) for above in node.ancestry())
        session = session_for(self, settings, None)
        return Compilation(session, settings, f"{self.name}.df", node, records=maps).frame(node).drop("_record")

    def stream_through(self, rows: Stream, topic: str, *, key: Names | None, partitions: int | None) -> Stream:
        sent = rows.with_columns(**{EVENT_TIME: col("_time")})
        sent.to(topic, key=key, partitions=partitions)
        back = self.stream(
            topic,
            schema=SchemaOf(node_of(sent)),
            format="json",
            time=EVENT_TIME,
            late=lateness_of(node_of(rows)),
            key=key or keys_of(rows),
        )
        return back.drop(EVENT_TIME)

    def table_through(self, rows: Table, topic: str, *, partitions: int | None) -> Table:
        sent = rows.with_columns(**{EVENT_TIME: col("_time")})
        sent.to(topic, partitions=partitions, config={"cleanup.policy": "compact"})
        back = self.table(topic, schema=SchemaOf(node_of(sent)), format="json", time=EVENT_TIME, key=keys_of(rows))
        return back.drop(EVENT_TIME)

    def _settings(self, bootstrap: str | None, master: str | None, state_dir: str | None) -> Settings:
        return self.settings.from_environment().over(bootstrap=bootstrap, master=master, state_dir=state_dir).located()

    def _topic(
        self,
        topic: str,
        schema: Any,  # noqa: ANN401
        format: Format | str | None,  # noqa: A002
        *,
        late: Duration,
        dlq: str | None,
        on_error: OnError,
        name: str | None,
        **fields: Any,  # noqa: ANN401 the rest of Topic
    ) -> Topic:
        check_format(format, schema)
        check_choice("on_error", on_error, "fail", "skip")
        taken = any(node.name == topic for node in self.graph.nodes)
        node = self.graph.add(
            Topic,
            name or (None if taken else topic),
            topic=topic,
            schema=schema,
            format=format or ("raw" if schema is None else "json"),
            late=duration(late),
            dlq=dlq,
            on_error=on_error,
            **fields,
        )
        self.add_dead_letters(node, dlq)
        return node
