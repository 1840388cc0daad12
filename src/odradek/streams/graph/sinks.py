"""Where rows leave an application, as frozen nodes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

from odradek.pipeline.durations import spoken
from odradek.streams.graph.expressions import shown
from odradek.streams.graph.nodes import Emit, Node, OnError, listed, text_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sink(Node):
    emit: Emit | None = None  # None: what suits the trunk


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopicSink(Sink):
    topic: str
    key: tuple[str, ...]  # empty: the record's own key
    format: Any
    schema: Any
    partitions: int | None  # for creating the topic; None: the broker's default
    config: Mapping[str, str]
    create: bool
    headers: Any = None  # a column of headers or of a map, or expressions by name

    kind: ClassVar[str] = "to"

    @property
    def summary(self) -> str:
        by = f" by {listed(self.key)}" if self.key else ""
        return f"{self.topic} ({self.format}){by}{self._with_headers}"

    @property
    def _with_headers(self) -> str:
        if self.headers is None:
            return ""
        names = listed(tuple(self.headers)) if isinstance(self.headers, Mapping) else text_of(self.headers)
        return f" with headers {names}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Materialize(Sink):
    """A table kept in a compacted changelog topic, which views follow."""

    view: str
    topic: str
    key: tuple[str, ...]
    partitions: int | None
    keep: timedelta | None

    kind: ClassVar[str] = "materialize"

    @property
    def summary(self) -> str:
        kept = f", kept for {spoken(self.keep)}" if self.keep else ""
        return f"{self.view} by {listed(self.key)}, changelog {self.topic}{kept}"

    @property
    def config(self) -> dict[str, str]:
        """Of its topic."""
        if self.keep is None:
            return {"cleanup.policy": "compact"}
        return {"cleanup.policy": "compact,delete", "retention.ms": str(self.keep // timedelta(milliseconds=1))}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeachRow(Sink):
    function: Callable[..., Any]
    retries: int
    backoff: timedelta  # before the first retry
    dlq: str | None
    on_error: OnError

    kind: ClassVar[str] = "foreach"

    @property
    def summary(self) -> str:
        again = f", {self.retries} retries from {spoken(self.backoff)} on" if self.retries else ""
        return f"{shown(self.function)}{again}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeachBatch(Sink):
    function: Callable[..., Any]

    kind: ClassVar[str] = "foreach_batch"

    @property
    def summary(self) -> str:
        return shown(self.function)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LakeTable(Sink):
    """A table of Parquet, Delta Lake or Iceberg, which rows are appended to."""

    path: str
    format: str
    partition_by: tuple[str, ...]
    gather: timedelta  # the longest that a row waits for others
    options: Mapping[str, str] = field(repr=False)  # may have passwords

    kind: ClassVar[str] = "to_table"

    @property
    def folder(self) -> str:
        """Where its rows wait. Rows for another path must not get there if the code gives its name to another table."""
        return f"{self.name}-{zlib.crc32(self.path.encode()):08x}"

    @property
    def summary(self) -> str:
        by = f" by {listed(self.partition_by)}" if self.partition_by else ""
        return f"{self.path} ({self.format}){by}, gathered for {spoken(self.gather)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LateRows(Sink):
    """The rows that came too late for the input, a step that waits for time."""

    topic: str

    kind: ClassVar[str] = "late_rows"

    @property
    def summary(self) -> str:
        return f"{self.topic} (json), rows too late for {self.inputs[0].name}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeadLetters(Sink):
    """What the input could not parse or process, as it came, with headers that say why."""

    topic: str

    kind: ClassVar[str] = "dead_letters"

    @property
    def summary(self) -> str:
        return self.topic
