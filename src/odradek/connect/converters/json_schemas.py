"""Kafka Connect's schemas as JSON objects, as JSON records carry them in their envelope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odradek.connect.conversion import CannotConvert
from odradek.connect.converters.json_values import from_json, to_json
from odradek.connect.records import Field, Kind, Schema

DEPTH_MAX = 100


def schema_to_json(schema: Schema, *, numeric: bool = False) -> dict[str, Any]:
    told: dict[str, Any] = {"type": str(schema.kind)}
    if schema.kind is Kind.ARRAY and schema.items is not None:
        told["items"] = schema_to_json(schema.items, numeric=numeric)
    if schema.kind is Kind.MAP and schema.keys is not None and schema.items is not None:
        told["keys"] = schema_to_json(schema.keys, numeric=numeric)
        told["values"] = schema_to_json(schema.items, numeric=numeric)
    if schema.kind is Kind.STRUCT:
        told["fields"] = [
            {**schema_to_json(field.schema, numeric=numeric), "field": field.name} for field in schema.fields
        ]
    told["optional"] = schema.optional
    more = {"name": schema.name, "version": schema.version, "doc": schema.doc}
    told |= {name: value for name, value in more.items() if value is not None}
    if schema.parameters:
        told["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        told["default"] = to_json(schema, schema.default, numeric=numeric)
    return told


def schema_of_json(told: object, depth: int = 0) -> Schema | None:
    """None for null, which is a value without a schema. Raises CannotConvert."""
    if told is None:
        return None
    if depth > DEPTH_MAX:
        raise CannotConvert(f"the schema is nested more than {DEPTH_MAX} levels deep")
    if not isinstance(told, Mapping):
        raise CannotConvert(f"the schema is {told!r}, but it must be an object with a type")
    try:
        kind = Kind(told.get("type", ""))
    except ValueError:
        raise CannotConvert(f"the schema has the type {told.get('type')!r}, which is not one of Connect's") from None
    schema = Schema(
        kind=kind,
        optional=told.get("optional") is True,
        name=_typed(told, "name", str),
        version=_typed(told, "version", int),
        doc=_typed(told, "doc", str),
        parameters={str(name): str(value) for name, value in (_typed(told, "parameters", dict) or {}).items()},
        fields=_fields(told, depth) if kind is Kind.STRUCT else (),
        items=_part(told, "items" if kind is Kind.ARRAY else "values", depth)
        if kind in (Kind.ARRAY, Kind.MAP)
        else None,
        keys=_part(told, "keys", depth) if kind is Kind.MAP else None,
    )
    return schema if told.get("default") is None else _with_default(schema, told["default"])


def _with_default(schema: Schema, default: object) -> Schema:
    return replace(schema, default=from_json(schema, default))


def _typed(told: Mapping[str, Any], name: str, kind: type) -> Any:  # noqa: ANN401 (an instance of `kind`, or None)
    value = told.get(name)
    if value is not None and not isinstance(value, kind):
        raise CannotConvert(f"{name!r} of the schema is {value!r}, which is not a {kind.__name__}")
    return value


def _part(told: Mapping[str, Any], name: str, depth: int) -> Schema:
    found = schema_of_json(told.get(name), depth + 1)
    if found is None:
        raise CannotConvert(f"the schema of type {told['type']!r} has no {name!r}")
    return found


def _fields(told: Mapping[str, Any], depth: int) -> tuple[Field, ...]:
    given = told.get("fields")
    if not isinstance(given, list):
        raise CannotConvert("the schema of a struct has no list of fields")
    fields = []
    for each in given:
        name = each.get("field") if isinstance(each, Mapping) else None
        schema = schema_of_json(each, depth + 1)
        if not isinstance(name, str) or schema is None:
            raise CannotConvert(f"a field of a struct's schema is {each!r}, but it needs a name in 'field'")
        fields.append(Field(name, schema))
    return tuple(fields)
