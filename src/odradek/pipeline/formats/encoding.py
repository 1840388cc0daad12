"""Converts rows to records: key and value for the sink, in a given format. Rows marked `_deleted` become tombstones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructType

from odradek.pipeline.formats.avro import avro_value
from odradek.pipeline.formats.avro_schemas import avro_schema_of
from odradek.pipeline.formats.json_text import WRITE_OPTIONS
from odradek.pipeline.formats.keys import key_bytes
from odradek.pipeline.formats.kinds import AnySchema, Avro, Debezium, Delimited, Format, Json, Protobuf, Raw, format_of
from odradek.pipeline.formats.protobuf import protobuf_value
from odradek.pipeline.formats.schemas import RESERVED, BadSchema
from odradek.pipeline.formats.text import NESTED

Encode = Callable[[DataFrame], DataFrame]


def encoding(
    format: Format | str,  # noqa: A002
    key: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    schema: AnySchema = None,
    headers: Column | None = None,
) -> Encode:
    """Rows as records: `key` and `value`, and `topic` and `headers` where the rows have `_topic` and `_headers`.

    Without key columns a record keeps the row's `_key`. Without `columns` its value has all columns but reserved ones.
    """

    return lambda rows: rows.select(*record_columns(rows, format, key, columns, schema, headers))


def record_columns(
    rows: DataFrame,
    format: Format | str,  # noqa: A002
    key: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    schema: AnySchema = None,
    headers: Column | None = None,
) -> list[Column]:
    """The columns of a record, as expressions on the columns of the rows."""
    told = {name: F.col(f"_{name}") for name in ("topic", "headers") if f"_{name}" in rows.columns}
    if headers is not None:
        told["headers"] = headers
    chosen = format_of(format)
    names = [name for name in rows.columns if name not in RESERVED] if columns is None else list(columns)
    value = _value(chosen, StructType([rows.schema[name] for name in names]), schema)
    if "_deleted" in rows.columns:
        value = F.when(~F.col("_deleted"), value)
    return [
        _key(rows, key).alias("key"),
        value.alias("value"),
        *(column.alias(name) for name, column in told.items()),
    ]


def _key(rows: DataFrame, key: Sequence[str]) -> Column:
    if key:
        for name in key:
            if name not in rows.columns:
                raise BadSchema(f"the key column {name!r} is none of {', '.join(rows.columns)}")
        return key_bytes(rows.schema, key)
    return F.col("_key") if "_key" in rows.columns else F.lit(None).cast("binary")


def _value(chosen: Format, struct: StructType, schema: AnySchema) -> Column:
    columns = [F.col(f"`{name}`") for name in struct.names]
    match chosen:
        case Json():
            return F.to_json(F.struct(*columns), WRITE_OPTIONS).cast("binary")
        case Avro():
            return avro_value(avro_schema_of(schema) if schema else None, F.struct(*columns), struct)
        case Protobuf():
            return protobuf_value(chosen.described, struct)
        case Raw():
            return _only_column(struct).cast("binary")
        case Delimited(separator):
            return F.concat_ws(separator, *(_field_text(struct, name) for name in struct.names)).cast("binary")
        case Debezium():
            raise BadSchema("the format debezium can only be read, not written", instead='format="json"')


def _only_column(struct: StructType) -> Column:
    """The column named `value`, or the only column. With a column `value`, others may be there, such as the key."""
    names = ["value"] if "value" in struct.names else struct.names
    if len(names) != 1 or not isinstance(struct[names[0]].dataType, BinaryType | StringType):
        raise BadSchema(
            f"a raw record has one value, but the rows have {struct.simpleString()}",
            instead="select one binary or text column, or name it `value`",
        )
    return F.col(f"`{names[0]}`")


def _field_text(struct: StructType, name: str) -> Column:
    if isinstance(struct[name].dataType, NESTED):
        raise BadSchema(f"column {name}: a delimited line has no place for {struct[name].dataType.simpleString()}")
    return F.coalesce(key_bytes(struct, [name]).cast("string"), F.lit(""))
