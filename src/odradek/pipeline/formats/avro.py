"""Avro bodies, read and written with fastavro.

A plain body is the output of a schemaless writer. Confluent's framing (a zero byte, a four-byte schema id, the body) is
read if `writers` has the schemas by id. Schema registries are not supported yet; the error of a framed record says so.
"""

from __future__ import annotations

import functools
import io
import struct as binary
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import BinaryType, StructType

from odradek.pipeline.formats.avro_schemas import AvroSchema, avro_schema_of, schema_of_struct, struct_of_schema
from odradek.pipeline.formats.python_reading import arrow_function, python_reading
from odradek.pipeline.formats.reading import Reading

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

FRAME = ">bI"  # zero, schema id
FRAME_BYTES = 5


class ConfluentFraming(Exception):
    """A record in Confluent's framing, but no schema for its id."""


class NotAvro(Exception):
    """A body that the schema does not describe."""


def avro_reading(given: AvroSchema, writers: Mapping[int, AvroSchema]) -> Reading:
    import fastavro

    schema = avro_schema_of(given)
    parsed = fastavro.parse_schema(schema)
    if not writers:
        return python_reading(struct_of_schema(schema), functools.partial(decode_plain, schema=parsed))
    known = {schema_id: fastavro.parse_schema(avro_schema_of(writer)) for schema_id, writer in writers.items()}
    return python_reading(struct_of_schema(schema), functools.partial(decode_framed, schema=parsed, writers=known))


def decode_plain(value: bytes, schema: Any) -> Any:  # noqa: ANN401 a parsed schema, and what it says
    try:
        return _body(value, schema)
    except Exception as problem:
        if len(value) < FRAME_BYTES or value[0] != 0:
            raise
        schema_id = binary.unpack_from(FRAME, value)[1]
        raise ConfluentFraming(
            f"not a plain Avro body ({problem}); it looks like Confluent's framing with schema id {schema_id}. "
            "A schema registry is not supported yet: give the schemas by id, "
            f"format=Avro(writers={{{schema_id}: schema}})"
        ) from problem


def decode_framed(value: bytes, schema: Any, writers: Mapping[int, Any]) -> Any:  # noqa: ANN401
    magic, schema_id = binary.unpack_from(FRAME, value) if len(value) >= FRAME_BYTES else (None, None)
    if magic != 0:
        raise NotAvro("writers= is for Confluent's framing, but this record does not begin with its zero byte")
    if schema_id not in writers:
        raise ConfluentFraming(f"there is no schema {schema_id} among writers={{{', '.join(map(str, writers))}}}")
    return _body(value[FRAME_BYTES:], writers[schema_id], schema)


def _body(value: bytes, writer: Any, reader: Any = None) -> Any:  # noqa: ANN401
    import fastavro

    stream = io.BytesIO(value)
    try:
        record = fastavro.schemaless_reader(stream, writer, reader)
    except EOFError as short:
        raise NotAvro("the body is shorter than the schema requires") from short
    # data of another schema often decodes to something, but rarely uses all bytes
    if stream.tell() != len(value):
        raise NotAvro(f"{len(value) - stream.tell()} bytes are left after the record")
    return record


def avro_value(schema: dict[str, Any] | None, row: Column, struct: StructType) -> Column:
    """Rows as plain Avro bodies, by the given schema or by a schema made from the columns."""
    import fastavro

    parsed = fastavro.parse_schema(schema or schema_of_struct(struct, "Record"))
    return arrow_function(functools.partial(_encode_all, schema=parsed), BinaryType())(row)


def _encode_all(rows: pa.Array[Any], schema: Any) -> pa.Array[Any]:  # noqa: ANN401
    import pyarrow as pa

    return pa.array([encode(row, schema) for row in rows.to_pylist()], pa.binary())


def encode(row: Mapping[str, Any] | None, schema: Any) -> bytes | None:  # noqa: ANN401
    import fastavro

    if row is None:
        return None
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, row)
    return stream.getvalue()
