"""Reads formats that Spark has no expression for, with a Python function per record. Arrow transfers only the value.

If the function raises an exception, the record gets a fault with its name and text. Other records are not affected.
"""

from __future__ import annotations

import enum
import functools
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from odradek.pipeline.formats.reading import Reading, all_nullable

if TYPE_CHECKING:
    import pyarrow as pa

Decode = Callable[[bytes], Mapping[str, Any]]
Plain = Callable[[Any], Any]


class NotValid(Exception):
    """pydantic refused a record."""


def python_reading(struct: StructType, decode: Decode) -> Reading:
    row = all_nullable(struct)
    outcome = StructType(
        [StructField("row", row), StructField("exception", StringType()), StructField("message", StringType())]
    )
    read_all = arrow_function(_reader(decode, row), outcome)
    return Reading(
        columns=struct,
        read=lambda: read_all(F.col("value")),
        value=lambda read, field: read["row"][field.name],
        fault=lambda read, _: F.when(
            read["exception"].isNotNull(),
            F.struct(read["exception"].alias("exception"), read["message"].alias("message")),
        ),
    )


def arrow_function(function: Callable[..., pa.Array[Any]], returns: DataType) -> Callable[[Column], Column]:
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    def apply(column: pa.Array[Any]) -> pa.Array[Any]:
        return function(column)

    apply.__annotations__ = {"column": pa.Array, "return": pa.Array}  # Spark finds the kind of function from these
    return arrow_udf(apply, returns)  # type: ignore[call-overload, no-any-return]


def pydantic_reading(struct: StructType, model: Any) -> Reading:  # noqa: ANN401 any model class
    """JSON as pydantic reads it: with its conversions, aliases, defaults and validators."""
    return python_reading(struct, functools.partial(_validated, model=model))


def _validated(value: bytes, model: Any) -> Mapping[str, Any]:  # noqa: ANN401
    from pydantic import ValidationError

    try:
        return model.model_validate_json(value).model_dump()  # type: ignore[no-any-return]
    except ValidationError as refused:
        found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in refused.errors(include_url=False)]
        raise NotValid("; ".join(found).removeprefix(": ")) from refused


def _reader(decode: Decode, row: DataType) -> Callable[[pa.Array[Any]], pa.Array[Any]]:
    to_plain = plain(row)

    def read(values: pa.Array[Any]) -> pa.Array[Any]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_type

        arrow_type = to_arrow_type(row, timezone="UTC")
        rows, problems = [], []
        for value in values.to_pylist():
            good, problem = None, None
            if value is not None:
                try:
                    good = to_plain(decode(value))
                except Exception as refused:  # noqa: BLE001 any exception of a decoder or validator belongs to this record
                    problem = refused
            rows.append(good)
            problems.append(problem)
        columns = [
            _arrow_rows(rows, problems, arrow_type),
            pa.array([type(problem).__name__ if problem else None for problem in problems], pa.string()),
            pa.array([_short(problem) if problem else None for problem in problems], pa.string()),
        ]
        return pa.StructArray.from_arrays(columns, names=["row", "exception", "message"])

    return read


def _arrow_rows(rows: list[Any], problems: list[Exception | None], arrow_type: pa.DataType) -> pa.Array[Any]:
    """Converts all rows at once. If that fails, converts them one by one to find the rows that do not fit."""
    import pyarrow as pa

    try:
        return pa.array(rows, arrow_type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        for index, row in enumerate(rows):
            try:
                pa.array([row], arrow_type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as misfit:
                rows[index], problems[index] = None, misfit
        return pa.array(rows, arrow_type)


def _short(problem: Exception) -> str:
    return " ".join(str(problem).split())[:500]


def plain(data_type: DataType) -> Plain:
    """A function that converts values of Python decoders to values for Arrow: dicts, lists, pairs, text."""
    match data_type:
        case StructType():
            return _plain_struct([(field.name, plain(field.dataType)) for field in data_type])
        case ArrayType():
            return _plain_list(plain(data_type.elementType))
        case MapType():
            return _plain_map(plain(data_type.keyType), plain(data_type.valueType))
        case BinaryType():
            return lambda value: value
        case _:
            return _plain_scalar


def _plain_struct(fields: Iterable[tuple[str, Plain]]) -> Plain:
    fields = list(fields)

    def struct(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return None if value is None else {name: to_plain(value[name]) for name, to_plain in fields}

    return struct


def _plain_list(element: Plain) -> Plain:
    return lambda value: None if value is None else [element(one) for one in value]


def _plain_map(key: Plain, value: Plain) -> Plain:
    return lambda items: None if items is None else [(key(k), value(v)) for k, v in items.items()]


def _plain_scalar(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, enum.Enum):
        return value.value
    return str(value) if isinstance(value, uuid.UUID) else value
