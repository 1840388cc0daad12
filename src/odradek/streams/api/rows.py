"""What streams and tables have in common: columns by name, steps without state, sinks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from odradek.pipeline.durations import Duration, duration
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.layout import Layout
from odradek.streams.graph.application import Application
from odradek.streams.graph.checks import check_emit, check_key
from odradek.streams.graph.expressions import ColumnLike, Expression, aliased, col
from odradek.streams.graph.nodes import Drop, Emit, Filter, MapRows, Node, Select, WithColumns
from odradek.streams.graph.sinks import ForeachBatch, Materialize, TopicSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from odradek.pipeline.formats import Format

Names = str | Sequence[str]


class Rows:
    """A step of the graph that gives rows. `rows.speed` and `rows["speed"]` are columns; `rows[condition]` filters."""

    __slots__ = ("_app", "_keys", "_node")

    def __init__(self, app: Application, node: Node, keys: tuple[str, ...]) -> None:
        self._app = app
        self._node = node
        self._keys = keys

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):
            raise AttributeError(name)
        return col(name)

    def __getitem__(self, item: str | ColumnLike) -> Any:  # noqa: ANN401 a column, or these rows filtered
        return col(item) if isinstance(item, str) else self.filter(item)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._node.name}>"

    @property
    def df(self) -> DataFrame:
        """The streaming DataFrame, with the user's columns and `_key`, `_time`. Starts Spark if it is not running."""
        return _frame_of(self._app, self._node)

    def filter(self, condition: ColumnLike) -> Self:
        """Rows for which the condition is true. In a table, a row that stops to be so is deleted."""
        return self._then(self._app.graph.add(Filter, None, inputs=(self._node,), condition=condition))

    where = filter

    def select(self, *columns: ColumnLike, **named: ColumnLike) -> Self:
        """These columns alone: names, SQL ("speed * 1.6 as kmh"), expressions, or `kmh=expression`."""
        chosen = (*columns, *(aliased(value, alias) for alias, value in named.items()))
        return self._then(self._app.graph.add(Select, None, inputs=(self._node,), columns=chosen))

    def with_columns(self, **columns: ColumnLike) -> Self:
        """All columns, and these added or replaced."""
        return self._then(self._app.graph.add(WithColumns, None, inputs=(self._node,), columns=columns))

    def drop(self, *columns: str) -> Self:
        return self._then(self._app.graph.add(Drop, None, inputs=(self._node,), columns=columns))

    def to(
        self,
        topic: str,
        *,
        key: Names | None = None,
        format: Format | str = "json",  # noqa: A002 the word of Spark's writers
        schema: Any = None,  # noqa: ANN401 whatever formats take
        emit: Emit | None = None,
        partitions: int | None = None,
        config: Mapping[str, str] | None = None,
        create: bool = True,
        headers: ColumnLike | Mapping[str, ColumnLike] | None = None,
        name: str | None = None,
    ) -> None:
        """Write to a topic, which is created if missing (with `partitions` and topic `config`) unless create=False.

        The record's key: the columns `key`, else those of rekey, group or table, else the key the record came with.
        Its value: all columns but the reserved ones. Headers: a column of them, a map, or `{"name": expression}`;
        the column `headers` of a source is then not part of the value. `emit` is for aggregates: "final" or "updates".
        """
        self._app.graph.add(
            TopicSink,
            name,
            inputs=(self._node,),
            topic=topic,
            key=names(key) if key is not None else self._keys,
            format=format,
            schema=schema,
            partitions=partitions,
            config=config or {},
            create=create,
            headers=headers,
            emit=check_emit(self._node, emit),
        )

    def materialize(
        self,
        view: str,
        *,
        key: Names | None = None,
        emit: Emit | None = None,
        keep: Duration | None = None,
        partitions: int | None = None,
        name: str | None = None,
    ) -> None:
        """Stores the newest row per key as a view, for `running.view(name)` and `GET /views/{name}/{key}`.

        The view is in the compacted topic `<app>-<view>-changelog`. An aggregate writes every update unless `emit` is
        "final". A row whose key column is null is left out. `keep`: topic and views drop rows that were not written
        for that long. Without `keep` rows stay, also those of windows that ended long ago.
        """
        self._app.graph.add(
            Materialize,
            name,
            inputs=(self._node,),
            view=view,
            topic=Layout(self._app.settings.state_dir, self._app.name).changelog(view),
            key=check_key(view, names(key) if key is not None else self._keys),
            partitions=partitions,
            keep=None if keep is None else duration(keep),
            emit=check_emit(self._node, emit, default="updates"),
        )

    def foreach_batch(
        self, function: Callable[[DataFrame, int], None], *, emit: Emit | None = None, name: str | None = None
    ) -> None:
        """Call `function(dataframe, batch id)` on the driver with each micro-batch; a batch may come twice."""
        self._app.graph.add(
            ForeachBatch, name, inputs=(self._node,), function=function, emit=check_emit(self._node, emit)
        )

    def _then(self, node: Node, keys: tuple[str, ...] | None = None) -> Self:
        return type(self)(self._app, node, self._keys if keys is None else keys)


def names(columns: Names) -> tuple[str, ...]:
    given = (columns,) if isinstance(columns, str) else tuple(columns)
    for column in given:
        if not isinstance(column, str):
            raise PipelineError(f"{column!r} is not the name of a column", instead='names: "driverId", or ["a", "b"]')
    return given


def node_of(rows: Rows) -> Node:
    return rows._node  # noqa: SLF001 rows have columns for attributes: anything public would hide one


def keys_of(rows: Rows) -> tuple[str, ...]:
    return rows._keys  # noqa: SLF001 see node_of


def _frame_of(app: Application, node: Node) -> DataFrame:
    from odradek.pipeline.session import session_for
    from odradek.streams.compile.compiling import Compilation

    settings = app.settings.from_environment()
    maps = any(isinstance(above, MapRows) for above in node.ancestry())
    session = session_for(app.name, settings.master, settings.conf, None)
    return Compilation(session, settings, f"{app.name}.df", node, records=maps).frame(node).drop("_record")
