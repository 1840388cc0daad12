"""Schemas inferred from JSON, as Debezium's outbox router does with `table.expand.json.payload`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odradek.connect.records import BOOLEAN, BYTES, FLOAT64, INT32, INT64, STRING, Field, Kind, Schema, array, struct


class NotUniform(ValueError):
    """JSON without one schema, such as an array of texts and numbers."""


def payload_schema(name: str | None, told: object, *, nulls: bool) -> Schema | None:
    """All parts are optional. None for null and an empty array: such a field is left out."""
    match told:
        case str():
            return STRING.or_null()
        case bool():
            return BOOLEAN.or_null()
        case int():
            if -(1 << 31) <= told < 1 << 31:
                return INT32.or_null()
            return INT64.or_null() if -(1 << 63) <= told < 1 << 63 else FLOAT64.or_null()
        case float():
            return FLOAT64.or_null()
        case list():
            return array(_items(name, told, nulls=nulls)).or_null() if told else None
        case Mapping():
            fields = (
                (key, payload_schema(f"{name}.{key}" if name else key, value, nulls=nulls))
                for key, value in told.items()
            )
            return struct([(key, schema) for key, schema in fields if schema is not None], name=name).or_null()
    return BYTES.or_null() if nulls else None


def _items(name: str | None, items: list[Any], *, nulls: bool) -> Schema:
    known = [item for item in items if item is not None]
    schemas = [payload_schema(name if isinstance(item, Mapping) else None, item, nulls=nulls) for item in known]
    found = [schema for schema in schemas if schema is not None]
    if not found or len(found) < len(known):
        raise NotUniform("an array has items without a schema")
    merged = found[0]
    for schema in found[1:]:
        if schema.kind is not merged.kind:
            raise NotUniform(f"an array has items of the types {merged.kind} and {schema.kind}")
        if schema.kind is Kind.STRUCT and schema != merged:
            merged = _merged(merged, schema)
    return merged


def _merged(one: Schema, other: Schema) -> Schema:
    fields = {field.name: field.schema for field in one.fields}
    for field in other.fields:
        before = fields.get(field.name)
        if before is None or (before.kind is Kind.BYTES and field.schema.kind is not Kind.BYTES):
            fields[field.name] = field.schema
    return replace(one, optional=False, fields=tuple(Field(name, schema) for name, schema in fields.items()))


def payload_value(told: Any, schema: Schema) -> Any:  # noqa: ANN401 (JSON)
    """The value in the shape of its schema: fields without one are left out."""
    if isinstance(told, Mapping):
        return {field.name: payload_value(told.get(field.name), field.schema) for field in schema.fields}
    if isinstance(told, list) and schema.items is not None:
        return [payload_value(item, schema.items) for item in told]
    return float(told) if schema.kind is Kind.FLOAT64 and isinstance(told, int) else told
