"""Keys: converts columns to the bytes of a record's key, and back.

One column is written as plain text (bytes stay bytes), several as a JSON object in the given order.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.pipeline.formats.json_text import READ_OPTIONS, WRITE_OPTIONS
from odradek.pipeline.formats.reading import field_value, moment, wire_struct


def key_bytes(struct: StructType, key: Sequence[str]) -> Column:
    """The record's key for rows with these columns."""
    if len(key) > 1:
        return F.to_json(F.struct(*(F.col(f"`{name}`") for name in key)), WRITE_OPTIONS).cast("binary")
    column = F.col(f"`{key[0]}`")
    match struct[key[0]].dataType:
        case BinaryType():
            return column
        case StringType():
            return column.cast("binary")
        case TimestampType():
            return F.date_format(column, WRITE_OPTIONS["timestampFormat"]).cast("binary")
        case StructType() | ArrayType() | MapType():
            return F.to_json(column, WRITE_OPTIONS).cast("binary")
        case _:
            return column.cast("string").cast("binary")


def key_columns(key: Column, fields: StructType) -> Column:
    """The columns of a key, null if it does not have them. Also reads Debezium's {schema, payload} wrapper."""
    text = key.cast("string")
    wire = wire_struct(fields)
    read = F.from_json(text, StructType([*wire, StructField("payload", wire)]), READ_OPTIONS)
    inside = [
        F.coalesce(field_value(read["payload"], field), field_value(read, field)).alias(field.name) for field in fields
    ]
    json_key = F.when(text.startswith("{"), F.struct(*inside))
    if len(fields) > 1:
        return json_key
    return F.coalesce(json_key, F.struct(_plain_key(key, fields[0]).alias(fields.names[0])))


def _plain_key(key: Column, field: StructField) -> Column:
    if isinstance(field.dataType, BinaryType):
        return key
    text = key.cast("string")
    if isinstance(field.dataType, TimestampType):
        return moment(text, StringType())
    return F.when(~text.startswith("{"), text.try_cast(field.dataType))
