"""An application: streams and tables by name, the graph of what is done with them, and how to run it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from odradek.pipeline.durations import Duration, duration
from odradek.pipeline.errors import Origin, PipelineError
from odradek.pipeline.layout import DEFAULT_STATE_DIR
from odradek.streams.api.rows import Names, names, node_of
from odradek.streams.api.stream import Stream
from odradek.streams.api.table import Static, Table
from odradek.streams.api.topic_nodes import DEFAULT_LATE, add_topic
from odradek.streams.graph.application import Application
from odradek.streams.graph.expressions import ColumnLike
from odradek.streams.graph.graph import Graph
from odradek.streams.graph.nodes import Frame, OnError, Sql, StaticFrame, Topic
from odradek.streams.graph.planning import Query
from odradek.streams.graph.settings import AT_LEAST_ONCE, DEFAULT_BOOTSTRAP, EXACTLY_ONCE, Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odradek.pipeline.formats import Format
    from odradek.streams.run.running import RunningApp

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
        delivery: str | None = None,
    ) -> None:
        """`every`: a query looks for new rows at most so often; without it, whenever it is done with the last ones.

        `delivery`: "exactly-once" writes topics in transactions, "at-least-once" does not. Without it: exactly once
        where the cluster has transactions.
        """
        if not _APP_NAME.fullmatch(name):
            raise PipelineError(
                f"{name!r} cannot be the name of an application",
                why="it is part of directories, consumer groups and topics",
                instead="letters, digits, '.', '_' and '-'",
            )
        if delivery not in (None, EXACTLY_ONCE, AT_LEAST_ONCE):
            raise PipelineError(
                f"delivery={delivery!r} is no guarantee",
                why="records reach a topic once, or again after a failure",
                instead=f"delivery={EXACTLY_ONCE!r} or delivery={AT_LEAST_ONCE!r}",
            )
        settings = Settings(
            delivery=delivery,
            bootstrap=bootstrap,
            state_dir=state_dir,
            master=master,
            conf=conf or {},
            config=config or {},
            every=None if every is None else duration(every),
        )
        self.application = Application(name=name, settings=settings, graph=Graph(), origin=Origin.here())

    def __repr__(self) -> str:
        return f"<App {self.name}: {len(self.graph.nodes)} steps>"

    @property
    def name(self) -> str:
        return self.application.name

    @property
    def settings(self) -> Settings:
        return self.application.settings

    @property
    def graph(self) -> Graph:
        return self.application.graph

    # --- sources

    def stream(
        self,
        topic: Names | None = None,
        *,
        pattern: str | None = None,
        schema: Any = None,  # noqa: ANN401 whatever formats take
        format: Format | str | None = None,  # noqa: A002 the word of Spark's readers
        time: str | None = None,
        late: Duration = DEFAULT_LATE,
        idle_after: Duration | None = None,
        start: str = "earliest",
        dlq: str | None = None,
        on_error: OnError = "fail",
        key: Names | None = None,
        headers: bool = False,
        topic_as: str | None = None,
        name: str | None = None,
        **options: str,
    ) -> Stream:
        """The records of a topic, of several (`["a", "b"]`), or of all whose name matches `pattern`, as they come.

        pattern: a regular expression for the whole name; topics that are created later are read from then on.
        schema: a dataclass, a pydantic model, DDL ("driverId int, speed double"); without one the format is "raw".
        format: "json" (with a schema), "avro", "raw" (the value as it is), "text", "csv", "debezium", or one of
        `odradek.streams.formats` with its options.
        time: the column with the event time; else the record's timestamp. `late`: how much out of order rows may come
        before windows and joins close without them, where the window does not say (grace). `idle_after`: where several
        streams meet, this one holds back time for so long after its last row and no longer, by the record timestamps of
        the others; without it, for ever.
        start: "earliest" or "latest", for the first run; later ones go on where the last one was.
        dlq: the topic for records that cannot be parsed; without one they stop the application, or with
        on_error="skip" are dropped.
        key: the columns that are the record's key. headers: True adds a column `headers`; `header("name")` is the text
        of one of them. topic_as: adds a column of this name with the topic of each record.
        options: any option of the source, as maxOffsetsPerTrigger="10000".
        """
        node = add_topic(
            self.graph,
            topic,
            pattern=pattern,
            schema=schema,
            format=format,
            time=time,
            late=late,
            idle_after=idle_after,
            start=start,
            dlq=dlq,
            on_error=on_error,
            name=name,
            options=options,
            headers=headers,
            topic_as=topic_as,
            key=() if key is None else names(key),
        )
        return Stream(self.application, node, names(key) if key is not None else ())

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
        node = add_topic(
            self.graph,
            topic,
            schema=schema,
            format=format,
            time=time,
            dlq=dlq,
            on_error=on_error,
            name=name,
            options=options,
            table_key=names(key),
        )
        return Table(self.application, node, names(key))

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
        return Stream(self.application, node, names(key) if key is not None else ())

    def static(self, frame: DataFrame | Callable[[SparkSession], DataFrame], *, name: str | None = None) -> Static:
        """A batch DataFrame, or a function of the session that makes one, to join streams with.

        Spark reads the files and tables behind it again for each micro-batch, so joins see new rows.
        """
        return Static(self.graph.add(StaticFrame, name, frame=frame))

    def sql(self, query: str, *, name: str | None = None, **streams: Stream | Table) -> Stream:
        """A query in SQL over the streams of the application by topic, and others as given: `app.sql("…", fast=fast)`.

        What is no letter, digit or underscore in a topic's name is an underscore in the query.
        Select `_time` (and `_key`) too if windows or joins by time follow.
        """
        known = {_alias(node): node for node in self.graph.topics} | {
            alias: node_of(rows) for alias, rows in streams.items()
        }
        used = {alias: node for alias, node in known.items() if re.search(rf"\b{re.escape(alias)}\b", query)}
        if not used:
            raise PipelineError(
                "the query names no stream of this application", why=f"there are {', '.join(sorted(known)) or 'none'}"
            )
        node = self.graph.add(Sql, name, inputs=tuple(used.values()), query=query, views=tuple(used))
        return Stream(self.application, node, ())

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
        from odradek.streams.run.running import run

        run(self.application, self._settings(bootstrap, master, state_dir), session)

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
        from odradek.streams.run.running import start

        settings = self._settings(bootstrap, master, state_dir)
        return start(self.application, settings, session, available_now=trigger_available_now)

    def describe(self) -> str:
        """The queries of this application and their steps, as text."""
        from odradek.streams.run.describe import describe

        return describe(self.application)

    def queries(self) -> tuple[Query, ...]:
        """What `run` would start: one Spark query for all sinks that share a source or a step."""
        return self.application.queries()

    def _settings(self, bootstrap: str | None, master: str | None, state_dir: str | None) -> Settings:
        return self.settings.from_environment().over(bootstrap=bootstrap, master=master, state_dir=state_dir).located()


def _alias(node: Topic) -> str:
    """What a query calls the rows of a source: its topic, or of several the name of the step."""
    return re.sub(r"\W", "_", node.topic if len(node.topics) == 1 else node.name)
