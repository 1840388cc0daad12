"""Python functions over rows, inside Spark's workers: what one row fails at is that row's failure."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from odradek.pipeline.formats.schemas import struct_of
from odradek.streams.compile.event_time import as_marked
from odradek.streams.graph.nodes import MapPandas, MapRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

ERROR = StructType([StructField(name, StringType()) for name in ("exception", "message", "stacktrace")])
HIDDEN = ("_deleted", "_record")  # from the function
STACKTRACE_CHARACTERS_MAX = 4000
CONVERSION_ERRORS = (ValueError, TypeError, OverflowError, NotImplementedError)  # Arrow's own are among them


def map_rows(node: MapRows, rows: DataFrame) -> DataFrame:
    """An outcome: the columns of the schema, what goes along, and `_error` where the function raised."""
    rows = with_record(rows)
    columns = struct_of(node.schema)
    carried = [rows.schema[name] for name in ("_key", "_time", "_record")]
    schema = StructType([StructField(f.name, f.dataType) for f in (*columns, *carried, StructField("_error", ERROR))])
    timezone = str(rows.sparkSession.conf.get("spark.sql.session.timeZone"))
    function = RowByRow(node.function, columns.names, schema, timezone, flat=node.flat)
    return as_marked(rows.mapInArrow(function, schema), rows)


def map_pandas(node: MapPandas, rows: DataFrame) -> DataFrame:
    columns = struct_of(node.schema)
    kept = [rows.schema["_key"], rows.schema["_time"]]
    schema = StructType([StructField(f.name, f.dataType) for f in (*columns, *kept)])
    made = rows.drop(*HIDDEN).mapInPandas(PieceByPiece(node.function, schema.names), schema)
    return as_marked(made.withColumn("_time", F.coalesce("_time", F.current_timestamp())), rows)


def with_record(rows: DataFrame) -> DataFrame:
    """Rows that no single record stands behind, as those of an aggregate, are their own record."""
    if "_record" in rows.columns:
        return rows
    return rows.withColumn("_record", own_record(rows))


def own_record(rows: DataFrame) -> Column:
    reserved = ("_key", "_time", *HIDDEN)
    names = [name for name in rows.columns if name not in reserved and not name.startswith("__odradek_")]
    return F.struct(
        F.col("_key").alias("key"),
        F.to_json(F.struct(*[F.col(f"`{name}`") for name in names])).cast("binary").alias("value"),
        F.lit(None).cast("string").alias("topic"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        F.col("_time").alias("timestamp"),
        F.lit(None).cast("int").alias("timestampType"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
    )


class RowByRow:
    """Called in the workers with Arrow batches."""

    def __init__(
        self, function: Callable[[Any], Any], names: list[str], schema: StructType, timezone: str, *, flat: bool
    ) -> None:
        self._function = function
        self._names = names
        self._schema = schema
        self._timezone = timezone
        self._flat = flat

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield self.outcome(batch)[0]

    def outcome(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
        """What became of the rows, and from which of them each came."""
        import pyarrow as pa

        types = to_arrow_schema(self._schema, timezone=self._timezone)
        made: list[dict[str, Any]] = []
        sources: list[int] = []
        for index, row in enumerate(rows_of(batch)):
            outcomes = self._outcomes(row)
            made += outcomes
            sources += [index] * len(outcomes)
        carried = batch.select(["_key", "_time", "_record"]).take(pa.array(sources, pa.int32()))
        try:
            own = self._arrays(made, types)
        except CONVERSION_ERRORS:  # one wrong value fails the whole array, so it must be found
            own = self._arrays([_convertible(one, types) for one in made], types)
        arrays = {
            **own,
            **{name: carried.column(name).cast(types.field(name).type) for name in carried.schema.names},
        }
        return pa.RecordBatch.from_arrays([arrays[field.name] for field in types], schema=types), sources

    def _outcomes(self, row: Row) -> list[dict[str, Any]]:
        try:
            result = self._function(row)
            several = (result or ()) if self._flat else (result,)
            return [as_columns(one, self._names) for one in several if one is not None]
        except Exception as problem:  # noqa: BLE001 whatever the user's function does wrong is this row's failure
            return [{"_error": error_of(problem)}]

    def _arrays(self, made: list[dict[str, Any]], types: pa.Schema) -> dict[str, pa.Array[Any]]:
        import pyarrow as pa

        return {
            name: pa.array([one.get(name) for one in made], types.field(name).type) for name in (*self._names, "_error")
        }


class PieceByPiece:
    def __init__(self, function: Callable[[Any], Any], names: list[str]) -> None:
        self._function = function
        self._names = names

    def __call__(self, frames: Iterator[Any]) -> Iterator[Any]:
        for frame in frames:
            made = self._function(frame)
            missing = [name for name in ("_key", "_time") if name not in made.columns]
            yield made.assign(**dict.fromkeys(missing))[self._names]


class Reducing:
    """A function of two values as a fold that begins with the first row; both values are always Rows."""

    def __init__(self, function: Callable[[Any, Any], Any], names: list[str]) -> None:
        self._function = function
        self._names = names

    def __call__(self, value: Any, row: Row) -> Any:  # noqa: ANN401 what the user's function returned last
        if value is None:
            return Row(**{name: row[name] for name in self._names})
        result = self._function(value, row)
        if isinstance(result, Row):  # often one of the two it was given, and the row has more columns than the value
            return Row(**{name: result[name] for name in self._names})
        return None if result is None else Row(**as_columns(result, self._names))


def as_columns(result: Any, names: list[str]) -> dict[str, Any]:  # noqa: ANN401 whatever a user's function returns
    """A dict, dataclass, pydantic model, Row or tuple as the columns it stands for."""
    if isinstance(result, Mapping):
        found: Mapping[str, Any] = result
    elif isinstance(result, Row) and hasattr(result, "__fields__"):
        found = result.asDict(recursive=True)
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        found = dataclasses.asdict(result)
    elif hasattr(result, "model_dump"):
        found = result.model_dump()
    elif isinstance(result, tuple | list) and len(result) == len(names):
        found = dict(zip(names, result, strict=True))
    else:
        raise TypeError(f"the function returned {result!r}; a row has {len(names)} columns: {', '.join(names)}")
    if unknown := sorted(set(found) - set(names) - {"_key", "_time"}):
        raise TypeError(f"the function returned a column {unknown[0]!r} that is not in its schema: {', '.join(names)}")
    return {name: found.get(name) for name in names}


def error_of(problem: BaseException) -> dict[str, str]:
    return {
        "exception": f"{type(problem).__module__}.{type(problem).__qualname__}".removeprefix("builtins."),
        "message": str(problem),
        "stacktrace": "".join(traceback.format_exception(problem))[-STACKTRACE_CHARACTERS_MAX:],
    }


def check_values(row: Mapping[str, Any], types: pa.Schema) -> None:
    """Raises TypeError if a value has not the type of its column."""
    import pyarrow as pa

    for name, value in row.items():
        try:
            pa.scalar(value, types.field(name).type)
        except CONVERSION_ERRORS:
            raise TypeError(f"column {name}: {value!r} is no {types.field(name).type}") from None


def _convertible(row: dict[str, Any], types: pa.Schema) -> dict[str, Any]:
    """The row, or the failure that a value of it has not the type of its column."""
    try:
        check_values(row, types)
    except TypeError as misfit:
        return {"_error": error_of(misfit)}
    return row


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    fields = [field for field in batch.schema if field.name not in HIDDEN]
    columns = [map(_reader(field.type), batch.column(field.name).to_pylist()) for field in fields]
    make = Row(*(field.name for field in fields))
    return (make(*values) for values in zip(*columns, strict=True))


def _reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """Arrow's Python value as Spark would give it: structs are Rows, maps are dicts."""
    import pyarrow.types as is_

    if is_.is_struct(kind):
        inner = {field.name: _reader(field.type) for field in kind}
        return lambda value: value and Row(**{name: read(value[name]) for name, read in inner.items()})
    if is_.is_list(kind):
        element = _reader(kind.value_type)
        return lambda value: value and [element(one) for one in value]
    if is_.is_map(kind):
        key, item = _reader(kind.key_type), _reader(kind.item_type)
        return lambda value: None if value is None else {key(k): item(v) for k, v in value}
    return lambda value: value
