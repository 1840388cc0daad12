"""Flatten: nested structs or maps as one level, with names joined by a delimiter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from odradek.connect.options import option
from odradek.connect.records import Field, Kind, Record, Schema
from odradek.connect.transforms.parts import (
    CannotTransform,
    OnKey,
    OnPart,
    OnValue,
    SchemaCache,
    as_map,
    as_struct,
    field_value,
    plain_struct,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlattenOptions:
    delimiter: str = option("Goes between the names of nested fields.", default=".")


class Flatten(OnPart):
    """Makes one level of nested structs or maps. Arrays stay as they are."""

    Config: ClassVar[type] = FlattenOptions

    def __init__(self, config: FlattenOptions) -> None:
        self._delimiter = config.delimiter
        self._flat = SchemaCache(self._schema)

    def apply(self, record: Record) -> Record:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            # A tombstone stays one.
            if value is None:
                return record
            return self.changed(record, None, dict(self._of_map(as_map(value, "flattening"), "")))
        if value is None:
            return self.changed(record, self._flat(schema).or_null(), None)
        struct = as_struct(schema, value, "flattening")
        flat = self._flat(schema)
        after: dict[str, Any] = dict.fromkeys(field.name for field in flat.fields)
        return self.changed(record, flat, after | dict(self._of_struct(schema, struct, "")))

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _of_map(self, value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, found in value.items():
            name = self._name(prefix, key)
            if isinstance(found, Mapping):
                yield from self._of_map(found, name)
            else:
                yield name, found

    def _of_struct(self, schema: Schema, value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for field in schema.fields:
            name, found = self._name(prefix, field.name), field_value(value, field, defaults=True)
            if field.schema.kind is not Kind.STRUCT:
                yield name, found
            elif found is not None:
                yield from self._of_struct(field.schema, found, name)

    def _schema(self, schema: Schema) -> Schema:
        if schema.kind is not Kind.STRUCT:
            raise CannotTransform(f"only a struct can be flattened; found {schema.kind}")
        default: Any = schema.default
        return plain_struct(schema, tuple(self._fields(schema, "", default, optional=schema.optional)))

    def _fields(
        self, schema: Schema, prefix: str, default: Mapping[str, Any] | None, *, optional: bool
    ) -> Iterator[Field]:
        """A field is optional if a struct around it is, and takes its default from the structs around it."""
        for field in schema.fields:
            name, is_optional = self._name(prefix, field.name), optional or field.schema.optional
            of_field: Any = field.schema.default
            if of_field is None and default is not None:
                of_field = default.get(field.name)
            if field.schema.kind is Kind.MAP:
                raise CannotTransform(f"the field {name!r} is a map, which cannot be flattened in a struct")
            if field.schema.kind is Kind.STRUCT:
                yield from self._fields(field.schema, name, of_field, optional=is_optional)
            else:
                yield Field(name, replace(field.schema, optional=is_optional, default=of_field))


class FlattenKey(OnKey, Flatten):
    """Kafka's `Flatten$Key`."""


class FlattenValue(OnValue, Flatten):
    """Kafka's `Flatten$Value`."""
