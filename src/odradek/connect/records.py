"""Records between a connector and a topic, with optional schemas: the data model of Kafka Connect in plain Python.

Values are plain Python: bool, int, float, str, bytes, Decimal, date, time, datetime, list, and dict for structs and
maps. A schema beside the value says which of Kafka Connect's types it is. Without a schema, a value is what JSON can
say. Converters translate between values and bytes; transforms take a record and return another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

Partition = Mapping[str, object]
"""A part of a source that has offsets of its own, such as `{"filename": "a.jsonl"}`."""

Offset = Mapping[str, object]
"""A position in a partition of a source, such as `{"position": 1024}`. Both are stored as JSON."""


class Kind(StrEnum):
    """Kafka Connect's types, by their names in JSON schemas."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


# Names of schemas whose values have a Python type of their own: Decimal, date, time, datetime (in UTC).
DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The type of a value. `name` gives it a meaning: a record's name, DECIMAL, `io.debezium.time.MicroTimestamp`.

    `items` is the schema of an array's elements or a map's values, `keys` of a map's keys, `fields` of a struct's.
    """

    kind: Kind
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    default: object = field(default=None, hash=False)
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    fields: tuple[Field, ...] = ()
    items: Schema | None = None
    keys: Schema | None = None

    def of(self, name: str) -> Schema | None:
        """The schema of a struct's field, if it has this field."""
        return next((field.schema for field in self.fields if field.name == name), None)

    def or_null(self) -> Schema:
        """The same type, with null allowed."""
        return self if self.optional else replace(self, optional=True)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Header:
    key: str
    value: object
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """Where a record for a sink was read, before transforms renamed its topic."""

    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class SourcePlace:
    """Where a record of a source was read. `offset` is the position after it: a restart continues there.

    Treat it as immutable. Not frozen, like Record.
    """

    partition: Partition
    offset: Offset


@dataclass(slots=True, kw_only=True)
class Record:
    """One record. Treat it as immutable, and change it with `replace`.

    Not frozen, because creating a frozen record takes three times as long. A value of None is a tombstone.
    """

    topic: str
    value: object = None
    key: object = None
    value_schema: Schema | None = None
    key_schema: Schema | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None
    place: TopicPlace | SourcePlace | None = None

    def header(self, key: str) -> object:
        """The value of the last header with this key, or None."""
        return next((header.value for header in reversed(self.headers) if header.key == key), None)


def struct(fields: Mapping[str, Schema] | Iterable[tuple[str, Schema]], *, name: str | None = None) -> Schema:
    """The schema of a struct: `struct({"id": INT64, "name": STRING.or_null()}, name="customers.Value")`."""
    pairs = fields.items() if isinstance(fields, Mapping) else fields
    return Schema(kind=Kind.STRUCT, name=name, fields=tuple(Field(key, schema) for key, schema in pairs))


def array(items: Schema) -> Schema:
    return Schema(kind=Kind.ARRAY, items=items)


def mapping(keys: Schema, values: Schema) -> Schema:
    return Schema(kind=Kind.MAP, keys=keys, items=values)


def decimal(scale: int, precision: int | None = None) -> Schema:
    known = {"scale": str(scale)} | ({} if precision is None else {"connect.decimal.precision": str(precision)})
    return Schema(kind=Kind.BYTES, name=DECIMAL, version=1, parameters=known)


INT8 = Schema(kind=Kind.INT8)
INT16 = Schema(kind=Kind.INT16)
INT32 = Schema(kind=Kind.INT32)
INT64 = Schema(kind=Kind.INT64)
FLOAT32 = Schema(kind=Kind.FLOAT32)
FLOAT64 = Schema(kind=Kind.FLOAT64)
BOOLEAN = Schema(kind=Kind.BOOLEAN)
STRING = Schema(kind=Kind.STRING)
BYTES = Schema(kind=Kind.BYTES)
DATES = Schema(kind=Kind.INT32, name=DATE, version=1)
TIMES = Schema(kind=Kind.INT32, name=TIME, version=1)
TIMESTAMPS = Schema(kind=Kind.INT64, name=TIMESTAMP, version=1)
