"""What the user wrote, as frozen nodes: sources and steps; sinks are beside them. Nothing here knows Spark.

Each node has a name that is stable as long as the code is (it names checkpoints) and the line of code it came from.
`inputs` point upstream. A stateful node keeps state between micro-batches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Literal

from odradek.pipeline.durations import spoken
from odradek.pipeline.errors import Origin
from odradek.streams.graph.expressions import ColumnLike, shown
from odradek.streams.graph.windows import Window

Emit = Literal["final", "updates"]
JoinKind = Literal["inner", "left", "right", "outer"]
OnError = Literal["fail", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    name: str
    origin: Origin
    inputs: tuple[Node, ...] = ()

    kind: ClassVar[str]
    stateful: ClassVar[bool] = False

    @property
    def summary(self) -> str:
        """One line for people: what this step does."""
        return ""

    def ancestry(self) -> Iterator[Node]:
        """This node and all upstream of it, each once, inputs first."""
        seen: set[Node] = set()

        def walk(node: Node) -> Iterator[Node]:
            if node not in seen:
                seen.add(node)
                for upstream in node.inputs:
                    yield from walk(upstream)
                yield node

        return walk(self)


# --- sources


@dataclass(frozen=True, slots=True)
class SchemaOf:
    """In the place of a schema: the columns of a node, known when it is compiled."""

    node: Node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Topic(Node):
    """Records of topics; with `table_key` the changelog of a table, where a null value deletes."""

    topics: tuple[str, ...]  # empty: all topics whose whole name matches `pattern`
    pattern: str | None = None
    schema: Any
    format: Any  # a name, or a format with its options
    time: str | None
    late: timedelta
    start: str
    dlq: str | None
    on_error: OnError
    table_key: tuple[str, ...] = ()
    idle_after: timedelta | None = None  # so long without a record, and it no longer holds back time
    headers: bool = False  # rows have the record's headers as a column
    topic_as: str | None = None  # rows have the record's topic as a column of this name
    options: Mapping[str, str] = field(default_factory=dict)

    kind: ClassVar[str] = "topic"

    @property
    def topic(self) -> str:
        """What it reads, in words; of one topic, its name."""
        return listed(self.topics) if self.pattern is None else f"topics matching {self.pattern}"

    def reads(self, topic: str) -> bool:
        if self.pattern is None:
            return topic in self.topics
        return re.fullmatch(self.pattern, topic) is not None

    @property
    def summary(self) -> str:
        table = f" as a table by {listed(self.table_key)}" if self.table_key else ""
        added = (
            f"{' with headers' if self.headers else ''}{f' with the topic as {self.topic_as}' if self.topic_as else ''}"
        )
        return f"{self.topic} ({self.format}){table}{added}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame(Node):
    """A streaming DataFrame from outside, or a function of the session that makes one."""

    frame: Any
    time: ColumnLike | None
    late: timedelta

    kind: ClassVar[str] = "frame"

    @property
    def summary(self) -> str:
        return shown(self.frame)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StaticFrame(Node):
    """A batch DataFrame, or a function of the session that makes one: Spark reads it again for each micro-batch."""

    frame: Any

    kind: ClassVar[str] = "static"

    @property
    def summary(self) -> str:
        return shown(self.frame)


# --- steps without state


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filter(Node):
    condition: ColumnLike

    kind: ClassVar[str] = "filter"

    @property
    def summary(self) -> str:
        return text_of(self.condition)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Select(Node):
    columns: tuple[ColumnLike, ...]

    kind: ClassVar[str] = "select"

    @property
    def summary(self) -> str:
        return ", ".join(map(text_of, self.columns))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WithColumns(Node):
    columns: Mapping[str, ColumnLike]

    kind: ClassVar[str] = "columns"

    @property
    def summary(self) -> str:
        return ", ".join(f"{name} = {text_of(value)}" for name, value in self.columns.items())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drop(Node):
    columns: tuple[str, ...]

    kind: ClassVar[str] = "drop"

    @property
    def summary(self) -> str:
        return listed(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapRows(Node):
    """A Python function per row; `flat`: it yields any number of rows."""

    function: Callable[..., Any]
    schema: Any
    flat: bool
    dlq: str | None
    on_error: OnError

    kind: ClassVar[str] = "map"

    @property
    def summary(self) -> str:
        return f"{shown(self.function)}, {'any number of rows' if self.flat else 'row by row'}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapPandas(Node):
    function: Callable[..., Any]
    schema: Any

    kind: ClassVar[str] = "map_pandas"

    @property
    def summary(self) -> str:
        return shown(self.function)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rekey(Node):
    key: tuple[str, ...]

    kind: ClassVar[str] = "rekey"

    @property
    def summary(self) -> str:
        return f"by {listed(self.key)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merge(Node):
    kind: ClassVar[str] = "merge"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToStream(Node):
    """A table's changes as a stream: deletions are dropped."""

    kind: ClassVar[str] = "to_stream"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StaticJoin(Node):
    on: Mapping[str, str]
    how: JoinKind
    suffix: str

    kind: ClassVar[str] = "static_join"

    @property
    def summary(self) -> str:
        return f"{self.how} on {_pairs(self.on)}"


# --- steps with state


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sql(Node):
    """A query over streams. What it does is for Spark to know, so it counts as stateful."""

    query: str
    views: tuple[str, ...]  # the name of each input in the query

    kind: ClassVar[str] = "sql"
    stateful: ClassVar[bool] = True

    @property
    def summary(self) -> str:
        return " ".join(self.query.split())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deduplicate(Node):
    on: tuple[str, ...]
    within: timedelta

    kind: ClassVar[str] = "deduplicate"
    stateful: ClassVar[bool] = True

    @property
    def summary(self) -> str:
        return f"{listed(self.on)} within {spoken(self.within)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Aggregate(Node):
    keys: tuple[str, ...]
    window: Window | None
    aggregates: tuple[ColumnLike, ...]

    kind: ClassVar[str] = "aggregate"
    stateful: ClassVar[bool] = True

    @property
    def summary(self) -> str:
        by = f"by {listed(self.keys)}" if self.keys else "all rows"
        over = f" over {self.window}" if self.window else ""
        values = ", ".join(map(text_of, self.aggregates))
        return f"{by}{over}: {values}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fold(Node):
    keys: tuple[str, ...]
    initial: Any
    function: Callable[..., Any]
    schema: Any
    reduces: bool  # the first row of a key is its first value

    kind: ClassVar[str] = "fold"
    stateful: ClassVar[bool] = True

    @property
    def summary(self) -> str:
        return f"by {listed(self.keys)}: {shown(self.function)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Process(Node):
    """A function with state and timers per key."""

    keys: tuple[str, ...]
    function: Callable[..., Any]
    out: Any
    dlq: str | None
    on_error: OnError
    on_timer: Callable[..., Any] | None
    ttl: timedelta | None
    timers: Literal["event", "processing"]

    kind: ClassVar[str] = "process"
    stateful: ClassVar[bool] = True

    @property
    def summary(self) -> str:
        return f"by {listed(self.keys)}: {shown(self.function)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamJoin(Node):
    """Rows of two streams whose times are close: left - before <= right <= left + after."""

    on: Mapping[str, str]
    how: JoinKind
    before: timedelta
    after: timedelta
    suffix: str

    kind: ClassVar[str] = "stream_join"
    stateful: ClassVar[bool] = True

    @property
    def summary(self) -> str:
        bound = (
            f"within {spoken(self.after)}"
            if self.before == self.after
            else f"from {spoken(self.before)} before to {spoken(self.after)} after"
        )
        return f"{self.how} on {_pairs(self.on)} {bound}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamTableJoin(Node):
    """Each row of the stream with the row of the table: the one of its time, or the newest."""

    on: Mapping[str, str]
    how: JoinKind
    suffix: str
    as_of: bool

    kind: ClassVar[str] = "table_lookup"
    stateful: ClassVar[bool] = True

    @property
    def summary(self) -> str:
        return f"{self.how} on {_pairs(self.on)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableTableJoin(Node):
    on: Mapping[str, str]
    how: JoinKind
    suffix: str

    kind: ClassVar[str] = "table_join"
    stateful: ClassVar[bool] = True

    @property
    def summary(self) -> str:
        return f"{self.how} on {_pairs(self.on)}"


def ranked(topics: Iterable[Topic]) -> list[Topic]:
    """In the order of records with equal timestamps: those of tables come first."""
    return sorted(topics, key=lambda topic: (not topic.table_key, topic.name))


def text_of(value: ColumnLike) -> str:
    """A column as the user wrote it."""
    return value if isinstance(value, str) else shown(value)


def listed(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def _pairs(on: Mapping[str, str]) -> str:
    return ", ".join(left if left == right else f"{left} = {right}" for left, right in on.items())
