"""Which columns a table in files can have."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import types as T

from odradek.pipeline.errors import PipelineError
from odradek.streams.graph.sinks import LakeTable

STORABLE = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)
NESTED = (T.StructType, T.ArrayType, T.MapType)


def check_storable(sink: LakeTable, columns: T.StructType) -> None:
    for column in columns:
        for kind in _leaves(column.dataType):
            if not isinstance(kind, STORABLE):
                raise PipelineError(
                    f"the column {column.name} cannot be stored in a table of files",
                    why=f"it is {column.dataType.simpleString()}",
                    instead=f'before it .with_columns({column.name}=F.col("{column.name}").cast("string"))',
                    origin=sink.origin,
                )
        if column.name in sink.partition_by and isinstance(column.dataType, (*NESTED, T.BinaryType)):
            raise PipelineError(
                f"a table cannot be divided by {column.name}",
                why=f"it is {column.dataType.simpleString()}",
                instead="partition_by= of columns that are text, whole numbers or dates",
                origin=sink.origin,
            )
    if {*columns.names} <= {*sink.partition_by}:
        raise PipelineError(
            "nothing is left for the files of the table",
            why=f"partition_by names all columns: {', '.join(columns.names)}",
            instead="partition_by= of fewer columns",
            origin=sink.origin,
        )


def _leaves(kind: T.DataType) -> Iterator[T.DataType]:
    match kind:
        case T.StructType():
            for field in kind:
                yield from _leaves(field.dataType)
        case T.ArrayType():
            yield from _leaves(kind.elementType)
        case T.MapType():
            yield from _leaves(kind.keyType)
            yield from _leaves(kind.valueType)
        case _:
            yield kind
