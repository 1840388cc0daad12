"""The headers of written records, from the `headers=` of a sink: a column, or expressions by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from odradek.pipeline.errors import PipelineError
from odradek.streams.graph.columns import HEADERS
from odradek.streams.graph.expressions import ColumnLike, column_of
from odradek.streams.graph.sinks import TopicSink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LISTED = "array<struct<key:string,value:binary>>"


def written_headers(sink: TopicSink, rows: DataFrame) -> Column | None:
    if sink.headers is None:
        return None
    if isinstance(sink.headers, Mapping):
        return _by_name(sink.headers, rows)
    column = column_of(sink.headers)
    kind = rows.select(column.alias("headers")).schema["headers"].dataType
    if _is_listed(kind):
        return column
    if isinstance(kind, T.MapType) and isinstance(kind.keyType, T.StringType):
        return F.transform(
            F.map_entries(column),
            lambda entry: F.struct(entry["key"].alias("key"), _bytes(entry["value"], kind.valueType).alias("value")),
        )
    raise PipelineError(
        f"headers= is {kind.simpleString()}",
        why=f"headers are {LISTED}, as a source with headers=True has them, or a map with text as keys",
        instead='headers=stream.headers, or headers={"name": an expression}',
        origin=sink.origin,
    )


def are_headers(rows: DataFrame, name: str) -> bool:
    """Whether this is the column of a source with headers=True."""
    return name == HEADERS and _is_listed(rows.schema[name].dataType)


def _is_listed(kind: T.DataType) -> bool:
    return kind.simpleString() == LISTED


def _by_name(headers: Mapping[str, ColumnLike], rows: DataFrame) -> Column:
    """A header whose expression is null is left out."""
    values = {name: column_of(value) for name, value in headers.items()}
    kinds = rows.select(*[value.alias(f"header{n}") for n, value in enumerate(values.values())]).schema
    made = [
        F.struct(F.lit(name).alias("key"), _bytes(value, kind.dataType).alias("value"))
        for (name, value), kind in zip(values.items(), kinds, strict=True)
    ]
    return F.filter(F.array(*made).cast(LISTED), lambda one: one["value"].isNotNull())


def _bytes(value: Column, kind: T.DataType) -> Column:
    """Bytes as they are, anything else as its text."""
    return value if isinstance(kind, T.BinaryType) else value.cast("string").cast("binary")
