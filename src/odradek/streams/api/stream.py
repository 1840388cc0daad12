"""A stream: rows that happen. Every verb adds a node to the graph; nothing runs before the application does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from odradek.pipeline.durations import Duration, duration
from odradek.pipeline.errors import PipelineError
from odradek.streams.api.group_verbs import Grouped, Windowed
from odradek.streams.api.join_verbs import (
    Within,
    check_never_late,
    check_no_bound,
    join_static,
    join_streams,
    join_table,
)
from odradek.streams.api.rows import Names, Rows, keys_of, names, node_of
from odradek.streams.api.table import Static, Table
from odradek.streams.api.topic_nodes import EVENT_TIME, add_dead_letters, add_late_rows, add_topic
from odradek.streams.graph.checks import (
    check_appends,
    check_choice,
    check_emit,
    check_grouped,
    check_lake_table,
    check_retries,
    check_rows_schema,
    check_time,
    waits_for_time,
)
from odradek.streams.graph.expressions import ColumnLike, Expression, F, col, lit, sql, suggest_verbs
from odradek.streams.graph.nodes import (
    Deduplicate,
    Emit,
    JoinKind,
    MapPandas,
    MapRows,
    Merge,
    Node,
    OnError,
    Process,
    Rekey,
    SchemaOf,
    StaticFrame,
)
from odradek.streams.graph.planning import lateness_of
from odradek.streams.graph.sinks import ForeachRow, LakeTable
from odradek.streams.graph.windows import Window

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from pyspark.sql import DataFrame

    from odradek.streams.compile.state.processor import Clock


class Stream(Rows):
    __slots__ = ()

    def map(
        self,
        function: Callable[[Any], Any],
        schema: Any,  # noqa: ANN401 whatever formats take
        *,
        dlq: str | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """A Python function per row: takes a Row, returns a dict, dataclass, Row or tuple of `schema`, or None.

        A row for which it raises goes to the topic `dlq`, if given; else the application stops and names the record
        (`on_error="skip"` drops it).
        """
        return self._mapped(function, schema, flat=False, dlq=dlq, on_error=on_error, name=name)

    def flat_map(
        self,
        function: Callable[[Any], Any],
        schema: Any,  # noqa: ANN401
        *,
        dlq: str | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Like map, but the function returns or yields any number of rows."""
        return self._mapped(function, schema, flat=True, dlq=dlq, on_error=on_error, name=name)

    def map_pandas(
        self,
        function: Callable[[PandasFrame], PandasFrame],
        schema: Any,  # noqa: ANN401
        *,
        name: str | None = None,
    ) -> Stream:
        """A function of pandas DataFrames, called with pieces of each micro-batch.

        The frame it returns has the columns of `schema` and may keep `_key` and `_time`, or give others; without a
        `_time` a row's time is when it was processed.
        """
        check_rows_schema(schema)
        node = self._app.graph.add(MapPandas, name, inputs=(self._node,), function=function, schema=schema)
        return Stream(self._app, node, ())

    def branch(self, *conditions: ColumnLike) -> tuple[Stream, ...]:
        """One stream per condition, and last the rest: a row goes to the first whose condition is true.

        `fast, slow, rest = stream.branch(stream.speed > 80, stream.speed > 0)`
        """
        branches: list[Stream] = []
        taken: list[ColumnLike] = []
        for condition in (*conditions, True):
            missed = [~F.coalesce(_boolean(earlier), F.lit(False)) for earlier in taken]
            own = _boolean(condition)
            for other in missed:
                own = own & other
            branches.append(self.filter(own))
            taken.append(condition)
        return tuple(branches)

    def merge(self, *others: Stream, name: str | None = None) -> Stream:
        """The rows of all, as they come. All have the same columns."""
        if strangers := [other for other in others if not isinstance(other, Stream)]:
            raise PipelineError(
                f"{strangers[0]!r} cannot be merged with a stream",
                why="a stream has rows that happened; those of a table replace each other",
                instead=".merge(table.to_stream()), .merge(app.from_df(frame))",
            )
        inputs = (self._node, *map(node_of, others))
        keys = self._keys if all(keys_of(other) == self._keys for other in others) else ()
        return Stream(self._app, self._app.graph.add(Merge, name, inputs=inputs), keys)

    def rekey(self, *columns: str) -> Stream:
        """These columns are the key from here on: of records written, and of joins and groups that name none."""
        node = self._app.graph.add(Rekey, None, inputs=(self._node,), key=names(columns))
        return self._then(node, names(columns))

    def deduplicate(
        self, *columns: str, within: Duration, late_to: str | None = None, name: str | None = None
    ) -> Stream:
        """Only the first of the rows that are equal in these columns, or in the stream's key, if they are no further
        apart than `within`. `late_to`: a topic for the rows that come too late to be judged."""
        check_appends("a deduplication", self._node)
        check_time("a deduplication", self._node)
        on = check_grouped("a deduplication", names(columns) or self._keys)
        node = self._app.graph.add(Deduplicate, name, inputs=(self._node,), on=on, within=duration(within))
        add_late_rows(self._app.graph, node, late_to)
        return self._then(node)

    def group_by(self, *columns: str, name: str | None = None) -> Grouped:
        """Rows with equal values in these columns, or in the stream's key; `name`: of the aggregate that follows."""
        return Grouped(self._app, self._node, names(columns) or self._keys, name)

    def window(self, window: Window, *, late_to: str | None = None, name: str | None = None) -> Windowed:
        """All rows by time alone; `group_by(...).window(...)` for one result per group."""
        return Grouped(self._app, self._node, (), name).window(window, late_to=late_to)

    def join(
        self,
        other: Stream | Table | Static | DataFrame,
        *,
        on: Names | Mapping[str, str] | None = None,
        within: Within | None = None,
        how: JoinKind = "inner",
        suffix: str = "_right",
        as_of: bool = True,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """With another stream, a table, or a batch DataFrame, where the columns `on` are equal ({"mine": "theirs"}).

        Stream (inner, left, right, outer): rows match if their times differ by no more than `within` ("5 seconds", or
        (before, after)). A late row that can no longer match goes to the topic `late_to`, if given.
        Table (inner, left): the row as it was at the event's time, or with `as_of=False` the newest one known when the
        event is processed.
        DataFrame: inner, left.
        Of columns that both sides have, the other side's get `suffix`; the columns `on` come once.
        """
        node: Node
        graph = self._app.graph
        if isinstance(other, Stream):
            node = join_streams(graph, self, other, on=on, within=within, how=how, suffix=suffix, name=name)
            add_late_rows(graph, node, late_to)
            return Stream(self._app, node, self._keys)
        check_no_bound(within)
        check_never_late(late_to)
        if isinstance(other, Table):
            node = join_table(graph, self, other, on=on, how=how, suffix=suffix, as_of=as_of, name=name)
        else:
            static = other.node if isinstance(other, Static) else graph.add(StaticFrame, None, frame=other)
            node = join_static(graph, self, static, on=on, how=how, suffix=suffix, name=name)
        return Stream(self._app, node, self._keys)

    def process(
        self,
        *,
        key: Names | None = None,
        out: Any,  # noqa: ANN401 whatever formats take
        dlq: str | None = None,
        on_error: OnError = "fail",
        on_timer: Callable[..., Iterable[Any] | None] | None = None,
        ttl: Duration | None = None,
        timers: Clock = "event",
        late_to: str | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], Stream]:
        """A decorator that turns a function with state into a stream of the rows that it yields.

        The function is `(key, rows, state: State[int], ...)`, as in
        `@stream.process(key="driverId", out="driverId int, spree int", ttl="10m")`. A class with `on_rows` and
        `on_timer` works, too.

        A row that fails goes to `dlq`, and leaves no trace in the state. ttl: how long after its newest row the state
        of a key is forgotten. timers: by "event" time or by the clock of the wall, "processing". late_to: a topic for
        the rows that come too late, of a function with timers in event time or a ttl.
        """
        check_choice("on_error", on_error, "fail", "skip")
        check_choice("timers", timers, "event", "processing")
        check_rows_schema(out)

        def decorate(function: Callable[..., Any]) -> Stream:
            check_appends("a function with state", self._node)
            keys = check_grouped("a function with state", names(key) if key is not None else self._keys)
            node = self._app.graph.add(
                Process,
                name,
                inputs=(self._node,),
                keys=keys,
                function=function,
                out=out,
                dlq=dlq,
                on_error=on_error,
                on_timer=on_timer,
                ttl=None if ttl is None else duration(ttl),
                timers=timers,
            )
            if waits_for_time(node):
                check_time("a function with timers or a ttl", self._node)
                add_late_rows(self._app.graph, node, late_to)
            else:
                check_never_late(late_to)
            add_dead_letters(self._app.graph, node, dlq)
            return Stream(self._app, node, keys)

        return decorate

    def foreach(
        self,
        function: Callable[[Any], None],
        *,
        retries: int = 0,
        backoff: Duration = "1 second",
        dlq: str | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> None:
        """Call the function with each Row, on the executors; after a failure of the query a row may come twice.

        If it raises it is called again, up to `retries` times, after `backoff` and then twice as long each time. A row
        that still fails goes to the topic `dlq`, if given; else the application stops and names the record
        (`on_error="skip"` drops it).
        """
        check_choice("on_error", on_error, "fail", "skip")
        check_retries(retries)
        node = self._app.graph.add(
            ForeachRow,
            name,
            inputs=(self._node,),
            function=function,
            retries=retries,
            backoff=duration(backoff),
            dlq=dlq,
            on_error=on_error,
        )
        add_dead_letters(self._app.graph, node, dlq)

    def to_table(
        self,
        path: str,
        *,
        format: str = "parquet",  # noqa: A002 the word of Spark's writers
        partition_by: Names = (),
        gather: Duration = "1 minute",
        options: Mapping[str, str] | None = None,
        emit: Emit | None = None,
        name: str | None = None,
    ) -> None:
        """Append the rows to a table of files: "parquet", "delta" or "iceberg", each row exactly once.

        `path` is a directory or `s3://bucket/prefix/table`. Rows wait up to `gather` for others, so that files are few
        and large; they wait on disk, and are not lost. `options` are those of the connector `lake`, such as
        `s3.endpoint` and `iceberg.catalog.uri`. The columns are all but the reserved ones.
        """
        columns = names(partition_by)
        check_lake_table(path, format, columns, options or {})
        self._app.graph.add(
            LakeTable,
            name,
            inputs=(self._node,),
            path=path,
            format=format,
            partition_by=columns,
            gather=duration(gather),
            options=dict(options or {}),
            emit=check_emit(self._node, emit),
        )

    def through(self, topic: str, *, key: Names | None = None, partitions: int | None = None) -> Stream:
        """Write to a topic and go on from it: what follows is a query of its own, with its own state and progress."""
        sent = self.with_columns(**{EVENT_TIME: col("_time")})
        sent.to(topic, key=key, partitions=partitions)
        node = add_topic(
            self._app.graph,
            topic,
            schema=SchemaOf(node_of(sent)),
            format="json",
            time=EVENT_TIME,
            late=lateness_of(self._node),
        )
        return Stream(self._app, node, names(key or self._keys)).drop(EVENT_TIME)

    def _mapped(
        self,
        function: Callable[[Any], Any],
        schema: Any,  # noqa: ANN401
        *,
        flat: bool,
        dlq: str | None,
        on_error: OnError,
        name: str | None,
    ) -> Stream:
        check_choice("on_error", on_error, "fail", "skip")
        check_rows_schema(schema)
        node = self._app.graph.add(
            MapRows,
            name,
            inputs=(self._node,),
            function=function,
            schema=schema,
            flat=flat,
            dlq=dlq,
            on_error=on_error,
        )
        add_dead_letters(self._app.graph, node, dlq)
        return Stream(self._app, node, ())


suggest_verbs(verb for verb in dir(Stream) if not verb.startswith("_"))


def _boolean(condition: ColumnLike) -> Expression:
    return sql(condition) if isinstance(condition, str) else lit(condition)
