"""Groups and windows on the way to an aggregate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.pipeline.errors import PipelineError
from odradek.streams.api.topic_nodes import add_late_rows
from odradek.streams.graph.application import Application
from odradek.streams.graph.checks import check_appends, check_grouped, check_rows_schema, check_running, check_window
from odradek.streams.graph.columns import WINDOW_COLUMNS
from odradek.streams.graph.expressions import ColumnLike, F, aliased
from odradek.streams.graph.nodes import Aggregate, Fold, Node
from odradek.streams.graph.windows import Window

if TYPE_CHECKING:
    from odradek.streams.api.stream import Stream
    from odradek.streams.api.table import Table


class Grouped:
    """Rows by key; an aggregate of all rows of a key since ever is a table."""

    __slots__ = ("_app", "_keys", "_name", "_node")

    def __init__(self, app: Application, node: Node, keys: tuple[str, ...], name: str | None) -> None:
        self._app, self._node, self._keys, self._name = app, node, keys, name

    def window(self, window: Window, *, late_to: str | None = None) -> Windowed:
        """`late_to`: a topic for the rows that come after all their windows are over."""
        check_window(self._node, window, self._keys)
        return Windowed(self._app, self._node, self._keys, self._name, window, late_to)

    def agg(self, *aggregates: ColumnLike, **named: ColumnLike) -> Table:
        """A row per group, updated as rows come: `.agg(n=F.count("*"), fastest="max(speed)")`."""
        from odradek.streams.api.table import Table

        check_running(self._node)
        node = self._app.graph.add(
            Aggregate,
            self._name,
            inputs=(self._node,),
            keys=self._keys,
            window=None,
            aggregates=_named(aggregates, named),
        )
        return Table(self._app, node, self._keys)

    def count(self) -> Table:
        return self.agg(count=F.count("*"))

    def aggregate(
        self,
        initial: Any,  # noqa: ANN401 the user's own state
        function: Callable[[Any, Any], Any],
        schema: Any,  # noqa: ANN401 whatever formats take
    ) -> Table:
        """Fold in Python: `function(aggregate, row) -> aggregate`, from `initial`; aggregates are rows of `schema`."""
        return self._folded(initial, function, schema, reduces=False)

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        schema: Any,  # noqa: ANN401
    ) -> Table:
        """Combine two values into one of the same `schema`; the first row of a key is its first value."""
        return self._folded(None, function, schema, reduces=True)

    def _folded(self, initial: Any, function: Callable[[Any, Any], Any], schema: Any, *, reduces: bool) -> Table:  # noqa: ANN401
        from odradek.streams.api.table import Table

        check_rows_schema(schema)
        check_appends("an aggregate in Python", self._node)
        check_grouped("an aggregate in Python", self._keys)
        node = self._app.graph.add(
            Fold,
            self._name,
            inputs=(self._node,),
            keys=self._keys,
            initial=initial,
            function=function,
            schema=schema,
            reduces=reduces,
        )
        return Table(self._app, node, self._keys)


class Windowed:
    """Rows by key and window; results are keyed by the group's columns, `window_start` and `window_end`."""

    __slots__ = ("_app", "_keys", "_late_to", "_name", "_node", "_window")

    def __init__(
        self,
        app: Application,
        node: Node,
        keys: tuple[str, ...],
        name: str | None,
        window: Window,
        late_to: str | None,
    ) -> None:
        self._app, self._node, self._keys, self._name, self._window = app, node, keys, name, window
        self._late_to = late_to

    def agg(self, *aggregates: ColumnLike, **named: ColumnLike) -> Stream:
        """A row per group and window. Sinks say when: "final" (once, when the window and its grace are over in event
        time, which later events move on) or "updates" (each time it changes)."""
        from odradek.streams.api.stream import Stream

        check_appends("a window", self._node)
        node = self._app.graph.add(
            Aggregate,
            self._name,
            inputs=(self._node,),
            keys=self._keys,
            window=self._window,
            aggregates=_named(aggregates, named),
        )
        add_late_rows(self._app.graph, node, self._late_to)
        return Stream(self._app, node, (*self._keys, *WINDOW_COLUMNS))

    def count(self) -> Stream:
        return self.agg(count=F.count("*"))


def _named(aggregates: tuple[ColumnLike, ...], named: dict[str, ColumnLike]) -> tuple[ColumnLike, ...]:
    if not aggregates and not named:
        raise PipelineError("nothing to aggregate", instead='.agg(n=F.count("*")), or .count()')
    return (*aggregates, *(aliased(value, name) for name, value in named.items()))
