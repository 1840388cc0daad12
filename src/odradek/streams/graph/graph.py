"""The graph of what the user wrote: every node once, under a name of its own."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, TypeVar

from odradek.pipeline.errors import Origin, PipelineError
from odradek.streams.graph.column_names import Columns, check_columns, columns_after
from odradek.streams.graph.nodes import Node, Topic
from odradek.streams.graph.sinks import Sink

N = TypeVar("N", bound=Node)
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


def can_be_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


class Graph:
    """The nodes of one application in the order they were written."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._counted: Counter[str] = Counter()
        self._columns: dict[Node, Columns] = {}

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes.values())

    @property
    def sinks(self) -> tuple[Sink, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Sink))

    @property
    def topics(self) -> tuple[Topic, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Topic))

    def columns_of(self, node: Node) -> Columns:
        """The user's columns of a step; None where only Spark knows them."""
        return self._columns.get(node)

    def add(self, kind: type[N], wanted: str | None, **fields: Any) -> N:  # noqa: ANN401 the fields of each kind
        """A new node, called as the user wants or `kind-N`: counted per kind, so that a new filter renames no join."""
        origin = Origin.here()
        node = kind(name=self._named(wanted, kind.kind, origin), origin=origin, **fields)
        check_columns(node, self._columns)
        self._columns[node] = columns_after(node, self._columns)
        self._nodes[node.name] = node
        return node

    def _named(self, wanted: str | None, kind: str, origin: Origin) -> str:
        if wanted is None:
            self._counted[kind] += 1
            return f"{kind}-{self._counted[kind]}"
        if not can_be_name(wanted):
            raise PipelineError(
                f"{wanted!r} cannot be a name",
                why="names of steps become directories, consumer groups and topics",
                instead="letters, digits, '.', '_' and '-'",
                origin=origin,
            )
        if wanted in self._nodes:
            raise PipelineError(
                f"there are two steps called {wanted!r}",
                why=f"the first is at {self._nodes[wanted].origin}; a name stands for one checkpoint",
                instead="another name=",
                origin=origin,
            )
        return wanted
