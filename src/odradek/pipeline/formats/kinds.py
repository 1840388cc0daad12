"""The formats by name, with their options: `format="json"`, `format=Delimited("|")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql.types import StructField, StructType

from odradek.pipeline.formats.avro import avro_reading
from odradek.pipeline.formats.avro_schemas import AvroSchema, avro_schema_of, struct_of_schema
from odradek.pipeline.formats.debezium import debezium_reading
from odradek.pipeline.formats.json_text import json_reading
from odradek.pipeline.formats.protobuf import protobuf_reading
from odradek.pipeline.formats.protobuf_schemas import Described, described, struct_of_message
from odradek.pipeline.formats.python_reading import pydantic_reading
from odradek.pipeline.formats.reading import Reading
from odradek.pipeline.formats.schemas import BadSchema, Schema, is_pydantic, struct_of
from odradek.pipeline.formats.text import delimited_reading, raw_reading

AnySchema: TypeAlias = Schema | Mapping[str, Any] | Path | None


@dataclass(frozen=True, slots=True)
class Json:
    """JSON objects. A pydantic model validates each record in Python; other schemas are read by Spark itself."""

    def __str__(self) -> str:
        return "json"


@dataclass(frozen=True, slots=True)
class Avro:
    """Plain Avro bodies, or Confluent's framing when `writers` gives the schema of each id."""

    writers: Mapping[int, AvroSchema] = field(default_factory=dict)

    def __str__(self) -> str:
        return "avro"


@dataclass(frozen=True, slots=True)
class Raw:
    """Key and value without decoding, as bytes or text."""

    text: bool = False

    def __str__(self) -> str:
        return "text" if self.text else "raw"


@dataclass(frozen=True, slots=True)
class Delimited:
    """Fields between separators, in the schema's order. There is no quoting: a field cannot contain the separator."""

    separator: str = "|"

    def __str__(self) -> str:
        return f"delimited by {self.separator!r}"


@dataclass(frozen=True, slots=True)
class Debezium:
    """Change events of a database table. The schema describes the rows of the table."""

    def __str__(self) -> str:
        return "debezium"


@dataclass(frozen=True, slots=True)
class Protobuf:
    """Messages of a class that protoc generated, or of a descriptor file and the message's full name.

    The columns are the fields of the message, so this format takes no schema.
    """

    message: Any
    name: str | None = None
    described: Described = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "described", described(self.message, self.name))

    def __str__(self) -> str:
        return f"protobuf {self.described.name}"


Format: TypeAlias = Json | Avro | Raw | Delimited | Debezium | Protobuf

NAMED: Mapping[str, Format] = {
    "json": Json(),
    "avro": Avro(),
    "raw": Raw(),
    "text": Raw(text=True),
    "delimited": Delimited(),
    "csv": Delimited(","),
    "debezium": Debezium(),
}


def format_of(given: Format | str) -> Format:
    if not isinstance(given, str):
        return given
    if given not in NAMED:
        raise BadSchema(f"there is no format {given!r}", instead=f"one of {', '.join(NAMED)}")
    return NAMED[given]


def reading_of(given: Format | str, schema: AnySchema, optional: Sequence[str] = ()) -> Reading:
    """How records are read. Columns in `optional` may be missing from the value, even if the schema requires them."""
    chosen = format_of(given)
    if isinstance(chosen, Raw):
        return raw_reading(text=chosen.text)
    if isinstance(chosen, Protobuf):
        if schema is not None:
            raise BadSchema(
                f"{chosen} takes no schema: its columns are its fields", instead="the source without schema="
            )
        return protobuf_reading(chosen.described)
    if schema is None:
        raise BadSchema(
            f"the format {chosen} needs a schema",
            instead="schema=a dataclass, a pydantic model, or 'id int, name string'",
        )
    if isinstance(chosen, Avro):
        return avro_reading(schema, chosen.writers)
    if isinstance(schema, Mapping | Path):
        raise BadSchema(f"an Avro schema was given for the format {chosen}", instead='format="avro"')
    struct = _relaxed(struct_of(schema), optional)
    match chosen:
        case Json():
            return pydantic_reading(struct, schema) if is_pydantic(schema) else json_reading(struct)
        case Delimited(separator):
            return delimited_reading(struct, separator)
        case Debezium():
            return debezium_reading(struct, needs_before=not optional)


def columns_of(given: Format | str, schema: AnySchema) -> StructType:
    """The columns of a stream with this format. Needs a JVM only for a DDL string."""
    chosen = format_of(given)
    if isinstance(chosen, Avro) and schema is not None:
        return struct_of_schema(avro_schema_of(schema))
    if isinstance(chosen, Protobuf) and schema is None:
        return struct_of_message(chosen.described.descriptor)
    return reading_of(chosen, schema).columns


def _relaxed(struct: StructType, optional: Sequence[str]) -> StructType:
    return StructType([StructField(f.name, f.dataType, f.nullable or f.name in optional, f.metadata) for f in struct])
