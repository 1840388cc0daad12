"""A table: the newest row per key of a changelog, and a batch DataFrame that streams can be joined with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.streams.joins import join_tables
from odradek.streams.nodes import JoinKind, Node, ToStream
from odradek.streams.rows import Names, Rows

if TYPE_CHECKING:
    from odradek.streams.app import App
    from odradek.streams.stream import Stream


class Table(Rows):
    """Rows that change. A step's rows are the changes; a row that a filter stops to accept is deleted downstream."""

    __slots__ = ()

    def to_stream(self) -> Stream:
        """The changes as a stream of rows; deletions are left out."""
        from odradek.streams.stream import Stream

        return Stream(self._app, self._app.graph.add(ToStream, None, inputs=(self._node,)), self._keys)

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
        return join_tables(self._app, self, other, on=on, how=how, suffix=suffix, name=name)

    def through(self, topic: str, *, partitions: int | None = None) -> Table:
        """Write the table to a compacted topic and go on from it: what follows is a query of its own."""
        return self._app.table_through(self, topic, partitions=partitions)


class Static:
    """A batch DataFrame, or a function of the session that makes one, to join streams with."""

    __slots__ = ("app", "node")

    def __init__(self, app: App, node: Node) -> None:
        self.app = app
        self.node = node
