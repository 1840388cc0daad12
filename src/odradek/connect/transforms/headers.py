"""Transforms of headers: drop, insert a constant, copy or move fields."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from odradek.connect.literals import parsed_literal
from odradek.connect.options import not_empty, option
from odradek.connect.records import Header, Record, Schema
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DropHeadersOptions:
    headers: list[str] = option("Names of headers to remove.", importance="HIGH", check=not_empty)


class DropHeaders:
    """Removes headers."""

    Config: ClassVar[type] = DropHeadersOptions

    def __init__(self, config: DropHeadersOptions) -> None:
        self._names = frozenset(config.headers)

    def apply(self, record: Record) -> Record:
        return replace(record, headers=tuple(header for header in record.headers if header.key not in self._names))


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertHeaderOptions:
    header: str = option("The name of the header.", importance="HIGH")
    value_literal: str = option(
        "The value: text, a number, true, false, null, a time in ISO format, or JSON.", importance="HIGH"
    )


class InsertHeader:
    """Adds a header with a constant."""

    Config: ClassVar[type] = InsertHeaderOptions

    def __init__(self, config: InsertHeaderOptions) -> None:
        schema, value = parsed_literal(config.value_literal)
        self._header = Header(config.header, value, schema)

    def apply(self, record: Record) -> Record:
        return replace(record, headers=(*record.headers, self._header))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderFromOptions(NullOptions):
    fields: list[str] = option("Fields to copy or move.", importance="HIGH", check=not_empty)
    headers: list[str] = option("Names of the headers, in the order of the fields.", importance="HIGH", check=not_empty)
    operation: Literal["move", "copy"] = option("Whether the fields stay.", importance="HIGH")


class HeaderFrom(OnPart):
    """Copies or moves fields to headers."""

    Config: ClassVar[type] = HeaderFromOptions

    def __init__(self, config: HeaderFromOptions) -> None:
        if len(config.fields) != len(config.headers):
            raise ValueError('"fields" and "headers" must have the same number of names')
        self._pairs = list(zip(config.fields, config.headers, strict=True))
        self._moved = frozenset(config.fields) if config.operation == "move" else frozenset()
        self._defaults = config.replace_null_with_default
        self._left = SchemaCache(self._schema)

    def _schema(self, schema: Schema) -> Schema:
        return plain_struct(schema, tuple(field for field in schema.fields if field.name not in self._moved))

    def apply(self, record: Record) -> Record:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            before = as_map(value, "headers from fields")
            added = tuple(Header(name, before.get(field)) for field, name in self._pairs)
            after = {name: found for name, found in before.items() if name not in self._moved}
            return self.changed(record, None, after, headers=record.headers + added)
        struct = as_struct(schema, value, "headers from fields")
        known = {field.name: field for field in schema.fields}
        if missing := [field for field, _ in self._pairs if field not in known]:
            raise CannotTransform(f"there is no field {missing[0]!r} for a header")
        added = tuple(
            Header(name, field_value(struct, known[field], defaults=self._defaults), known[field].schema)
            for field, name in self._pairs
        )
        if not self._moved:
            return self.changed(record, schema, struct, headers=record.headers + added)
        left = self._left(schema)
        after = {field.name: field_value(struct, field, defaults=self._defaults) for field in left.fields}
        return self.changed(record, left, after, headers=record.headers + added)


class HeaderFromKey(OnKey, HeaderFrom):
    """Kafka's `HeaderFrom$Key`."""


class HeaderFromValue(OnValue, HeaderFrom):
    """Kafka's `HeaderFrom$Value`."""
