"""Records to and from Arrow: schemas of Kafka Connect and of Arrow, and batches of records as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from odradek.connect import records
from odradek.connect.records import (
    BOOLEAN,
    BYTES,
    DATES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIMES,
    TIMESTAMPS,
    Kind,
    Record,
    Schema,
    array,
    decimal,
    mapping,
    struct,
)

DECIMAL_DIGITS_MAX = 38

_ARROW = {
    Kind.INT8: pa.int8(),
    Kind.INT16: pa.int16(),
    Kind.INT32: pa.int32(),
    Kind.INT64: pa.int64(),
    Kind.FLOAT32: pa.float32(),
    Kind.FLOAT64: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.STRING: pa.string(),
    Kind.BYTES: pa.binary(),
}
_CONNECT = {
    pa.int8(): INT8,
    pa.int16(): INT16,
    pa.int32(): INT32,
    pa.int64(): INT64,
    pa.uint8(): INT16,
    pa.uint16(): INT32,
    pa.uint32(): INT64,
    pa.float16(): FLOAT32,
    pa.float32(): FLOAT32,
    pa.float64(): FLOAT64,
    pa.bool_(): BOOLEAN,
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.date32(): DATES,
    pa.date64(): DATES,
}


class NoSuchType(TypeError):
    """A type of Arrow that Kafka Connect's model does not have."""


def arrow_type(schema: Schema) -> pa.DataType:
    match schema.name:
        case records.DECIMAL:
            digits = int(schema.parameters.get("connect.decimal.precision", DECIMAL_DIGITS_MAX))
            return pa.decimal128(digits, int(schema.parameters["scale"]))
        case records.DATE:
            return pa.date32()
        case records.TIME:
            return pa.time32("ms")
        case records.TIMESTAMP:
            return pa.timestamp("ms", tz="UTC")
    match schema.kind:
        case Kind.STRUCT:
            return pa.struct([_arrow_field(field.name, field.schema) for field in schema.fields])
        case Kind.ARRAY if schema.items is not None:
            return pa.list_(_arrow_field("element", schema.items))
        case Kind.MAP if schema.keys is not None and schema.items is not None:
            return pa.map_(arrow_type(schema.keys), _arrow_field("value", schema.items))
        case simple:
            return _ARROW[simple]


def _arrow_field(name: str, schema: Schema) -> pa.Field:
    return pa.field(name, arrow_type(schema), nullable=schema.optional)


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns for records whose values are structs of this schema."""
    return pa.schema([_arrow_field(field.name, field.schema) for field in schema.fields])


def schema_of(columns: pa.Schema, name: str | None = None) -> Schema:
    """The struct with one field for each column."""
    return struct([(column.name, _schema(column)) for column in columns], name=name)


def _schema(field: pa.Field) -> Schema:
    plain = _plain(field.type)
    return plain.or_null() if field.nullable else plain


def _plain(kind: pa.DataType) -> Schema:
    if kind in _CONNECT:
        return _CONNECT[kind]
    if pa.types.is_decimal(kind):
        return decimal(kind.scale, kind.precision)
    if pa.types.is_timestamp(kind):
        return TIMESTAMPS
    if pa.types.is_time(kind):
        return TIMES
    if pa.types.is_struct(kind):
        return struct([(kind.field(i).name, _schema(kind.field(i))) for i in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return mapping(_plain(kind.key_type), _schema(kind.item_field))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return array(_schema(kind.value_field))
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    raise NoSuchType(f"records have no type for Arrow's {kind}; cast the column first")


def records_of(batch: pa.RecordBatch, topic: str) -> Iterator[Record]:
    """One record for each row: its value is a struct of the columns."""
    schema = schema_of(batch.schema)
    for row in batch.to_pylist(maps_as_pydicts="strict"):
        yield Record(topic=topic, value=row, value_schema=schema)


def batch_of(rows: Sequence[Record], schema: Schema) -> pa.RecordBatch:
    """The values of records as columns. The values are dicts; a missing key is null."""
    return pa.RecordBatch.from_pylist([row.value for row in rows], schema=arrow_schema(schema))
