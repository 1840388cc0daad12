"""A table: the newest row per key of a changelog, and a batch DataFrame that streams can be joined with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.pipeline.errors import PipelineError
from odradek.streams.api.join_verbs import join_tables
from odradek.streams.api.rows import Names, Rows, node_of
from odradek.streams.api.topic_nodes import EVENT_TIME, add_topic
from odradek.streams.graph.expressions import col
from odradek.streams.graph.nodes import JoinKind, Node, SchemaOf, ToStream

if TYPE_CHECKING:
    from odradek.streams.api.stream import Stream


class Table(Rows):
    """Rows that change. A step's rows are the changes; a row that a filter stops to accept is deleted downstream."""

    __slots__ = ()

    def to_stream(self) -> Stream:
        """The changes as a stream of rows; deletions are left out."""
        from odradek.streams.api.stream import Stream

        return Stream(self._app, self._app.graph.add(ToStream, None, inputs=(self._node,)), self._keys)

    def to_table(self, path: str, **_: object) -> None:
        raise PipelineError(
            f"a table of the application cannot be written to {path!r}",
            why="its rows replace each other, and a table in files is appended to",
            instead=f".to_stream().to_table({path!r}), which appends each change as a row; or .materialize(view)",
        )

    def join(
        self,
        other: Table,
        *,
        on: Names | Mapping[str, str] | None = None,
        how: JoinKind = "inner",
        suffix: str = "_right",
        name: str | None = None,
    ) -> Table:
        """With another table by the keys of both: inner, left, outer. The result follows the changes of either side."""
        if not isinstance(other, Table):
            raise PipelineError(
                "a table can be joined with a table",
                why="rows of a stream look into a table, not the other way round",
                instead="stream.join(table, on=...)",
            )
        node = join_tables(self._app.graph, self, other, on=on, how=how, suffix=suffix, name=name)
        return Table(self._app, node, self._keys)

    def through(self, topic: str, *, partitions: int | None = None) -> Table:
        """Write the table to a compacted topic and go on from it: what follows is a query of its own."""
        sent = self.with_columns(**{EVENT_TIME: col("_time")})
        sent.to(topic, partitions=partitions, config={"cleanup.policy": "compact"})
        node = add_topic(
            self._app.graph,
            topic,
            schema=SchemaOf(node_of(sent)),
            format="json",
            time=EVENT_TIME,
            table_key=self._keys,
        )
        return Table(self._app, node, self._keys).drop(EVENT_TIME)


class Static:
    """A batch DataFrame, or a function of the session that makes one, to join streams with."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node
