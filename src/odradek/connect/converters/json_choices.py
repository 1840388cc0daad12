"""Values with several possible schemas: structs of which one field is set, as in Confluent's converter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.connect.records import Field, Kind, Schema

ONE_OF = "io.confluent.connect.json.OneOf"
_INTEGERS = frozenset({Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64})


def choice(schemas: Sequence[Schema]) -> Schema:
    fields = tuple(Field(f"{ONE_OF}.field.{index}", schema.or_null()) for index, schema in enumerate(schemas))
    return Schema(kind=Kind.STRUCT, name=ONE_OF, fields=fields)


def is_choice(schema: Schema) -> bool:
    return schema.kind is Kind.STRUCT and schema.name == ONE_OF


def has_choices(schema: Schema | None) -> bool:
    if schema is None:
        return False
    parts = [schema.items, schema.keys, *(field.schema for field in schema.fields)]
    return is_choice(schema) or any(map(has_choices, parts))


def chosen(schema: Schema, value: Any) -> Any:  # noqa: ANN401 (JSON)
    """A value as it was read, with a struct for each choice. Raises ValueError if no alternative fits."""
    if value is None:
        return None
    if is_choice(schema):
        fits = [(_fit(field.schema, value), -index) for index, field in enumerate(schema.fields)]
        best, index = max(fits)
        if best < 0:
            raise ValueError(f"{value!r} fits none of the {len(fits)} alternatives of its schema")
        return {
            field.name: chosen(field.schema, value) if at == -index else None for at, field in enumerate(schema.fields)
        }
    return _inside(schema, value, chosen)


def plain(schema: Schema, value: Any) -> Any:  # noqa: ANN401 (JSON)
    """The reverse of `chosen`: the value of the field that is set. Raises ValueError unless exactly one is set."""
    if value is None:
        return None
    if is_choice(schema):
        given = [(field.schema, value.get(field.name)) for field in schema.fields]
        given = [(each, part) for each, part in given if part is not None]
        if len(given) != 1:
            raise ValueError(f"{len(given)} alternatives of a choice are set, but it must be one")
        return plain(*given[0])
    return _inside(schema, value, plain)


def _inside(schema: Schema, value: Any, convert: Any) -> Any:  # noqa: ANN401
    if schema.kind is Kind.STRUCT and isinstance(value, dict):
        known = {field.name: field.schema for field in schema.fields}
        return {name: convert(known[name], each) if name in known else each for name, each in value.items()}
    items = schema.items
    if schema.kind is Kind.ARRAY and items is not None and isinstance(value, list):
        return [convert(items, each) for each in value]
    if schema.kind is Kind.MAP and items is not None and isinstance(value, dict):
        return {name: convert(items, each) for name, each in value.items()}
    return value


def _fit(schema: Schema, value: Any) -> int:  # noqa: ANN401 (a table of types)
    """How well a value fits: -1 not at all, else more for each field that both have."""
    if value is None:
        return 0 if schema.optional else -1
    match schema.kind:
        case Kind.BOOLEAN:
            return 0 if isinstance(value, bool) else -1
        case kind if kind in _INTEGERS:
            return 1 if isinstance(value, int) and not isinstance(value, bool) else -1
        case Kind.FLOAT32 | Kind.FLOAT64:
            return 0 if isinstance(value, int | float) and not isinstance(value, bool) else -1
        case Kind.STRING | Kind.BYTES:
            return 0 if isinstance(value, str) else -1
        case Kind.ARRAY if isinstance(value, list) and schema.items is not None:
            return min([0, *(_fit(schema.items, each) for each in value)])
        case Kind.MAP if isinstance(value, dict) and schema.items is not None:
            return min([0, *(_fit(schema.items, each) for each in value.values())])
        case Kind.STRUCT if is_choice(schema):
            return max(_fit(field.schema, value) for field in schema.fields)
        case Kind.STRUCT if isinstance(value, dict):
            fits = [_fit(field.schema, value.get(field.name)) for field in schema.fields]
            known = sum(field.name in value for field in schema.fields)
            return -1 if -1 in fits else known
    return -1
