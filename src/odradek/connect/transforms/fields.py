"""Transforms of fields: extract, hoist, insert, replace, and fields of the value as the key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from odradek.connect.options import not_empty, option
from odradek.connect.records import INT32, INT64, STRING, TIMESTAMPS, Field, Kind, Record, Schema, TopicPlace, struct
from odradek.connect.transforms.field_paths import FieldPath
from odradek.connect.transforms.parts import (
    CannotTransform,
    NullOptions,
    OnKey,
    OnPart,
    OnValue,
    SchemaCache,
    as_map,
    as_struct,
    field_value,
    plain_struct,
)
from odradek.connect.values import moment_of


def _syntax(version: str) -> str | None:
    return None if version.upper() in ("V1", "V2") else "must be V1 or V2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractFieldOptions(NullOptions):
    field: str = option("The field to extract.")
    field_syntax_version: str = option(
        "V1: fields at the top. V2: also nested fields, with dots; backticks around names with dots.",
        default="V1",
        importance="HIGH",
        check=_syntax,
    )


class ExtractField(OnPart):
    """Replaces the value by one of its fields."""

    Config: ClassVar[type] = ExtractFieldOptions

    def __init__(self, config: ExtractFieldOptions) -> None:
        nested = config.field_syntax_version.upper() == "V2"
        self._name = config.field
        self._path = FieldPath.nested(config.field) if nested else FieldPath((config.field,))
        self._defaults = config.replace_null_with_default

    def apply(self, record: Record) -> Record:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            found = None if value is None else self._path.in_map(as_map(value, "field extraction"))
            return self.changed(record, None, found)
        field = self._path.field(schema)
        if field is None:
            raise CannotTransform(f"there is no field {self._name!r} to extract")
        found = None if value is None else self._path.in_struct(schema, value, defaults=self._defaults)
        return self.changed(record, field.schema, found)


class ExtractFieldKey(OnKey, ExtractField):
    """Kafka's `ExtractField$Key`."""


class ExtractFieldValue(OnValue, ExtractField):
    """Kafka's `ExtractField$Value`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoistFieldOptions:
    field: str = option("The name of the only field of the new value.")


class HoistField(OnPart):
    """Wraps the value in a struct or map with one field."""

    Config: ClassVar[type] = HoistFieldOptions

    def __init__(self, config: HoistFieldOptions) -> None:
        self._name = config.field
        self._hoisted = SchemaCache(lambda schema: struct({config.field: schema}))

    def apply(self, record: Record) -> Record:
        schema = self.schema_of(record)
        return self.changed(
            record, None if schema is None else self._hoisted(schema), {self._name: self.value_of(record)}
        )


class HoistFieldKey(OnKey, HoistField):
    """Kafka's `HoistField$Key`."""


class HoistFieldValue(OnValue, HoistField):
    """Kafka's `HoistField$Value`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertFieldOptions(NullOptions):
    topic_field: str | None = option("Field for the topic. `!` at the end: required; `?`: optional.", default=None)
    partition_field: str | None = option("Field for the partition.", default=None)
    offset_field: str | None = option("Field for the offset; of sinks only.", default=None)
    timestamp_field: str | None = option("Field for the record's timestamp.", default=None)
    static_field: str | None = option("Field for `static.value`.", default=None)
    static_value: str | None = option("The value of `static.field`.", default=None)


@dataclass(frozen=True, slots=True)
class _Insertion:
    name: str
    schema: Schema
    # What the field gets in a value with a schema, and in one without.
    typed: Callable[[Record], object]
    plain: Callable[[Record], object]

    @classmethod
    def of(
        cls,
        spec: str,
        schema: Schema,
        typed: Callable[[Record], object],
        plain: Callable[[Record], object] | None = None,
    ) -> _Insertion:
        name = spec[:-1] if spec.endswith(("!", "?")) else spec
        return cls(name, schema if spec.endswith("!") else schema.or_null(), typed, plain or typed)


def _offset(record: Record) -> int:
    if not isinstance(record.place, TopicPlace):
        raise CannotTransform("offset.field is for sinks: the records of a source have no offset yet")
    return record.place.offset


def _moment(record: Record) -> object:
    return None if record.timestamp_ms is None else moment_of(record.timestamp_ms)


class InsertField(OnPart):
    """Adds fields with the record's topic, partition, offset or timestamp, or with a constant."""

    Config: ClassVar[type] = InsertFieldOptions

    def __init__(self, config: InsertFieldOptions) -> None:
        if config.static_field is not None and config.static_value is None:
            raise ValueError('"static.field" needs "static.value"')
        wanted = [
            (config.topic_field, STRING, lambda record: record.topic, None),
            (config.partition_field, INT32, lambda record: record.partition, None),
            (config.offset_field, INT64, _offset, None),
            (config.timestamp_field, TIMESTAMPS, _moment, lambda record: record.timestamp_ms),
            (config.static_field, STRING, lambda _: config.static_value, None),
        ]
        self._insertions = [_Insertion.of(spec, *more) for spec, *more in wanted if spec is not None]  # type: ignore[arg-type]
        if not self._insertions:
            raise ValueError("no field to insert: set topic.field, partition.field, timestamp.field or static.field")
        self._defaults = config.replace_null_with_default
        added = tuple(Field(each.name, each.schema) for each in self._insertions)
        self._extended = SchemaCache(lambda schema: plain_struct(schema, schema.fields + added))

    def apply(self, record: Record) -> Record:
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            known = {each.name: each.plain(record) for each in self._insertions}
            # An unknown partition or timestamp adds no field.
            added = {name: found for name, found in known.items() if found is not None}
            return self.changed(record, None, {**as_map(value, "field insertion"), **added})
        before = as_struct(schema, value, "field insertion")
        after = {field.name: field_value(before, field, defaults=self._defaults) for field in schema.fields}
        after |= {each.name: each.typed(record) for each in self._insertions}
        return self.changed(record, self._extended(schema), after)


class InsertFieldKey(OnKey, InsertField):
    """Kafka's `InsertField$Key`."""


class InsertFieldValue(OnValue, InsertField):
    """Kafka's `InsertField$Value`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceFieldOptions(NullOptions):
    exclude: list[str] = option("Fields to remove.", default=[])
    include: list[str] = option("Fields to keep; without it, all of them.", default=[])
    renames: list[str] = option("New names, as old:new.", default=[])


class ReplaceField(OnPart):
    """Removes or renames fields."""

    Config: ClassVar[type] = ReplaceFieldOptions

    def __init__(self, config: ReplaceFieldOptions) -> None:
        self._exclude, self._include = frozenset(config.exclude), frozenset(config.include)
        self._renames = dict(_pair(text) for text in config.renames)
        self._defaults = config.replace_null_with_default
        self._replaced = SchemaCache(self._schema)

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _schema(self, schema: Schema) -> Schema:
        kept = (field for field in schema.fields if self._keeps(field.name))
        return plain_struct(
            schema, tuple(Field(self._renames.get(field.name, field.name), field.schema) for field in kept)
        )

    def apply(self, record: Record) -> Record:
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            before = as_map(value, "field replacement")
            kept: dict[str, Any] = {
                self._renames.get(name, name): found for name, found in before.items() if self._keeps(name)
            }
            return self.changed(record, None, kept)
        before = as_struct(schema, value, "field replacement")
        kept = {
            self._renames.get(field.name, field.name): field_value(before, field, defaults=self._defaults)
            for field in schema.fields
            if self._keeps(field.name)
        }
        return self.changed(record, self._replaced(schema), kept)


def _pair(text: str) -> tuple[str, str]:
    parts = text.split(":")
    if len(parts) != 2:
        raise ValueError(f'"renames" has {text!r}, but it needs pairs such as old:new')
    return parts[0], parts[1]


class ReplaceFieldKey(OnKey, ReplaceField):
    """Kafka's `ReplaceField$Key`."""


class ReplaceFieldValue(OnValue, ReplaceField):
    """Kafka's `ReplaceField$Value`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueToKeyOptions(NullOptions):
    fields: list[str] = option("Fields of the value that make the key.", check=not_empty)


class ValueToKey:
    """Makes a key of fields of the value."""

    Config: ClassVar[type] = ValueToKeyOptions

    def __init__(self, config: ValueToKeyOptions) -> None:
        self._fields = config.fields
        self._defaults = config.replace_null_with_default
        self._key_schema = SchemaCache(self._schema)

    def _schema(self, schema: Schema) -> Schema:
        known = {field.name: field.schema for field in schema.fields}
        if missing := [name for name in self._fields if name not in known]:
            raise CannotTransform(f"the value has no field {missing[0]!r} for the key")
        return struct({name: known[name] for name in self._fields})

    def apply(self, record: Record) -> Record:
        schema, purpose = record.value_schema, "copying fields from value to key"
        key: Mapping[str, Any]
        if schema is None:
            value = as_map(record.value, purpose)
            key = {name: value.get(name) for name in self._fields}
            return replace(record, key=key, key_schema=None)
        value = as_struct(schema, record.value, purpose)
        key_schema = self._key_schema(schema)
        key = {field.name: field_value(value, field, defaults=self._defaults) for field in key_schema.fields}
        return replace(record, key=key, key_schema=key_schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSchemaMetadataOptions(NullOptions):
    schema_name: str | None = option("The name of the schema.", default=None, importance="HIGH")
    schema_version: int | None = option("The version of the schema.", default=None, importance="HIGH")


class SetSchemaMetadata(OnPart):
    """Sets the name or the version of the schema."""

    Config: ClassVar[type] = SetSchemaMetadataOptions

    def __init__(self, config: SetSchemaMetadataOptions) -> None:
        known = {"name": config.schema_name, "version": config.schema_version}
        changes: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
        self._renamed = SchemaCache(lambda schema: replace(schema, **changes))
        self._defaults = config.replace_null_with_default

    def apply(self, record: Record) -> Record:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            if value is None:
                return record
            raise CannotTransform("the schema's name cannot be set: the record has no schema")
        if schema.kind is Kind.STRUCT and value is not None:
            before = as_struct(schema, value, "schema metadata")
            value = {field.name: field_value(before, field, defaults=self._defaults) for field in schema.fields}
        return self.changed(record, self._renamed(schema), value)


class SetSchemaMetadataKey(OnKey, SetSchemaMetadata):
    """Kafka's `SetSchemaMetadata$Key`."""


class SetSchemaMetadataValue(OnValue, SetSchemaMetadata):
    """Kafka's `SetSchemaMetadata$Value`."""
