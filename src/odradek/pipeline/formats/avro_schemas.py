"""Converts Avro schemas to Spark schemas and back, without a JVM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.pipeline.formats.schemas import ALLOWED, BadSchema, Schema, struct_of

PRIMITIVES: Mapping[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
}
LOGICAL: Mapping[str, DataType] = {
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
    "date": DateType(),
    "uuid": StringType(),
}
WRITTEN: tuple[tuple[type[DataType], Any], ...] = (
    (BooleanType, "boolean"),
    (ByteType, "int"),
    (ShortType, "int"),
    (IntegerType, "int"),
    (LongType, "long"),
    (FloatType, "float"),
    (DoubleType, "double"),
    (BinaryType, "bytes"),
    (StringType, "string"),
    (TimestampType, {"type": "long", "logicalType": "timestamp-micros"}),
    (TimestampNTZType, {"type": "long", "logicalType": "local-timestamp-micros"}),
    (DateType, {"type": "int", "logicalType": "date"}),
)

AvroSchema: TypeAlias = Mapping[str, Any] | str | Path | Schema


def avro_schema_of(given: AvroSchema) -> dict[str, Any]:
    """The Avro schema from a dict, JSON text, an .avsc file, or any other schema."""
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith(".avsc")):
        return dict(json.loads(Path(given).read_text()))
    if isinstance(given, str) and given.lstrip().startswith("{"):
        return dict(json.loads(given))
    return schema_of_struct(struct_of(given), getattr(given, "__name__", "Record"))


def struct_of_schema(schema: Any) -> StructType:  # noqa: ANN401 an Avro schema is JSON
    data_type, _, _ = _spark_type(schema, schema.get("name", "record"), {})
    if not isinstance(data_type, StructType):
        raise BadSchema(f"an Avro schema for a stream is a record, not {schema.get('type')!r}")
    return data_type


def _spark_type(schema: Any, path: str, named: dict[str, DataType]) -> tuple[DataType, bool, list[str]]:  # noqa: ANN401
    """The Spark type, whether it may be null, and the symbols of an enum."""
    if isinstance(schema, list):
        some = [branch for branch in schema if branch != "null"]
        if len(some) != 1:
            raise BadSchema(f"{path}: a column has one type, not the union {json.dumps(schema)}")
        data_type, _, allowed = _spark_type(some[0], path, named)
        return data_type, len(some) < len(schema), allowed
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return PRIMITIVES[schema], False, []
        if schema.split(".")[-1] in named:
            return named[schema.split(".")[-1]], False, []
        raise BadSchema(f"{path}: unknown or recursive Avro type {schema!r}")
    logical = schema.get("logicalType")
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0)), False, []
    if logical in LOGICAL:
        return LOGICAL[logical], False, []
    if logical in ("time-millis", "time-micros", "duration"):
        raise BadSchema(
            f"{path}: the logical type {logical} has no Spark type; leave logicalType out to get the number"
        )
    return _complex_type(schema, path, named)


def _complex_type(schema: dict[str, Any], path: str, named: dict[str, DataType]) -> tuple[DataType, bool, list[str]]:
    match schema["type"]:
        case "record":
            named[schema["name"].split(".")[-1]] = struct = StructType(
                [_field(f, path, named) for f in schema["fields"]]
            )
            return struct, False, []
        case "enum":
            named[schema["name"].split(".")[-1]] = StringType()
            return StringType(), False, list(schema["symbols"])
        case "fixed":
            named[schema["name"].split(".")[-1]] = BinaryType()
            return BinaryType(), False, []
        case "array":
            element, nullable, _ = _spark_type(schema["items"], f"{path}[]", named)
            return ArrayType(element, nullable), False, []
        case "map":
            value, nullable, _ = _spark_type(schema["values"], f"{path}{{}}", named)
            return MapType(StringType(), value, nullable), False, []
        case inner:
            return _spark_type(inner, path, named)


def _field(field: Mapping[str, Any], path: str, named: dict[str, DataType]) -> StructField:
    data_type, nullable, allowed = _spark_type(field["type"], f"{path}.{field['name']}", named)
    return StructField(field["name"], data_type, nullable, {ALLOWED: allowed} if allowed else None)


def schema_of_struct(struct: StructType, name: str) -> dict[str, Any]:
    """An Avro record for columns. A nullable column is a union with null first."""
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": f.name, "type": ["null", avro_type], "default": None}
            if f.nullable
            else {"name": f.name, "type": avro_type}
            for f in struct
            for avro_type in [_avro_type(f.dataType, f"{name}_{f.name}")]
        ],
    }


def _avro_type(data_type: DataType, name: str) -> Any:  # noqa: ANN401
    match data_type:
        case StructType():
            return schema_of_struct(data_type, name)
        case ArrayType():
            items = _avro_type(data_type.elementType, f"{name}_item")
            return {"type": "array", "items": ["null", items] if data_type.containsNull else items}
        case MapType(keyType=StringType()):
            values = _avro_type(data_type.valueType, f"{name}_value")
            return {"type": "map", "values": ["null", values] if data_type.valueContainsNull else values}
        case DecimalType():
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": data_type.precision,
                "scale": data_type.scale,
            }
    for kind, written in WRITTEN:
        if isinstance(data_type, kind):
            return written
    raise BadSchema(f"{name.replace('_', '.')}: Avro has no type for {data_type.simpleString()}")
