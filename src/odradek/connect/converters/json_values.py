"""Values with schemas as JSON and back: base64 for bytes, pairs for maps whose keys are not text."""

from __future__ import annotations

import base64
import binascii
import math
import typing
from collections.abc import Mapping
from decimal import Decimal

from odradek.connect.conversion import CannotConvert
from odradek.connect.records import DECIMAL, Field, Kind, Schema
from odradek.connect.values import INTEGER_BITS, LOGICAL, WrongType, checked, from_plain, scale_of, to_plain, unscaled

NO_VALUE = "Conversion error: null value for field that is required and has no default value"
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(
    schema: Schema, value: object, *, numeric: bool = False, defaults: bool = True, where: str = "the value"
) -> object:
    """What `msgspec.json.encode` takes. `numeric`: decimals as numbers. `defaults`: a default replaces a null."""
    if value is None:
        value = schema.default if defaults else None
        if value is None:
            if schema.optional:
                return None
            raise CannotConvert(f"{NO_VALUE} ({where})")
    if schema.name == DECIMAL and numeric and isinstance(value, Decimal):
        unscaled(value, scale_of(schema))
        return value
    try:
        plain = checked(schema, to_plain(schema, value) if schema.name in LOGICAL else value, where)
    except WrongType as wrong:
        raise CannotConvert(str(wrong)) from None
    match schema.kind:
        case Kind.BYTES:
            return base64.b64encode(plain).decode()  # type: ignore[arg-type]
        case Kind.FLOAT32 | Kind.FLOAT64 if not math.isfinite(plain):  # type: ignore[arg-type]
            return next(text for text, number in _FLOATS.items() if str(number) == str(plain))
        case Kind.ARRAY if schema.items is not None:
            return [
                to_json(schema.items, item, numeric=numeric, defaults=defaults, where=f"{where}[{at}]")
                for at, item in enumerate(typing.cast("list[object]", plain))
            ]
        case Kind.MAP if schema.items is not None and schema.keys is not None:
            pairs = [
                (
                    to_json(schema.keys, key, numeric=numeric, defaults=defaults, where=f"a key of {where}"),
                    to_json(schema.items, item, numeric=numeric, defaults=defaults, where=f"{where}[{key!r}]"),
                )
                for key, item in plain.items()  # type: ignore[attr-defined]
            ]
            return dict(pairs) if _has_text_keys(schema) else pairs
        case Kind.STRUCT:
            return _struct_to_json(schema, plain, numeric=numeric, defaults=defaults, where=where)  # type: ignore[arg-type]
    return plain


def _struct_to_json(
    schema: Schema, struct: Mapping[str, object], *, numeric: bool, defaults: bool, where: str
) -> dict[str, object]:
    """Most values are what JSON has already: these are only compared with their type, without a call."""
    told: dict[str, object] = {}
    for name, of, kind, low, high in _plan(schema):
        value = struct.get(name)
        if type(value) is kind and (low is None or low <= value <= high):  # type: ignore[operator]
            told[name] = value
        elif value is None and of.optional and of.default is None:
            told[name] = None
        else:
            inside = name if where == "the value" else f"{where}.{name}"
            told[name] = to_json(of, value, numeric=numeric, defaults=defaults, where=inside)
    return told


_Step = tuple[str, Schema, type | None, int | float | None, int | float | None]
# By the identity of a schema, because its hash takes longer than the conversion. The schema keeps its identity alive.
_PLANS: dict[int, tuple[Schema, list[_Step]]] = {}
PLANS_MAX = 1_000
_FINITE = 1.7e308


def _plan(schema: Schema) -> list[_Step]:
    """For each field: the type and the bounds of values that stay as they are; None if it has no such values."""
    known = _PLANS.get(id(schema))
    if known is None:
        if len(_PLANS) >= PLANS_MAX:
            _PLANS.clear()
        known = _PLANS[id(schema)] = (schema, [_step(field) for field in schema.fields])
    return known[1]


def _step(field: Field) -> _Step:
    kind = field.schema.kind
    if field.schema.name in LOGICAL:
        return field.name, field.schema, None, None, None
    if kind in INTEGER_BITS:
        bound = 1 << INTEGER_BITS[kind]
        return field.name, field.schema, int, -bound, bound - 1
    if kind in (Kind.FLOAT32, Kind.FLOAT64):
        return field.name, field.schema, float, -_FINITE, _FINITE
    return field.name, field.schema, {Kind.STRING: str, Kind.BOOLEAN: bool}.get(kind), None, None


def _has_text_keys(schema: Schema) -> bool:
    return schema.keys is not None and schema.keys.kind is Kind.STRING and not schema.keys.optional


def from_json(schema: Schema, told: object, *, defaults: bool = True, where: str = "the value") -> object:
    if told is None:
        if defaults and schema.default is not None:
            return schema.default
        if schema.optional:
            return None
        raise CannotConvert(f"{where} is null, but its schema says {schema.kind} and has no default")
    if schema.name == DECIMAL and isinstance(told, int | float | Decimal) and not isinstance(told, bool):
        return Decimal(str(told))
    try:
        plain = checked(schema, _plain(schema, told, where), where)
        if schema.name in LOGICAL:
            return from_plain(schema, plain)
    except WrongType as wrong:
        raise CannotConvert(str(wrong)) from None
    match schema.kind:
        case Kind.ARRAY if schema.items is not None:
            return [
                from_json(schema.items, item, defaults=defaults, where=f"{where}[{at}]")
                for at, item in enumerate(typing.cast("list[object]", plain))
            ]
        case Kind.MAP if schema.items is not None and schema.keys is not None:
            return {
                from_json(schema.keys, key, where=f"a key of {where}"): from_json(
                    schema.items, item, defaults=defaults, where=f"{where}[{key!r}]"
                )
                for key, item in plain.items()  # type: ignore[attr-defined]
            }
        case Kind.STRUCT:
            struct: Mapping[str, object] = plain  # type: ignore[assignment]
            return {
                field.name: from_json(
                    field.schema,
                    struct.get(field.name),
                    defaults=defaults,
                    where=field.name if where == "the value" else f"{where}.{field.name}",
                )
                for field in schema.fields
            }
    return plain


def _plain(schema: Schema, told: object, where: str) -> object:
    if schema.kind is Kind.BYTES and isinstance(told, str):
        try:
            return base64.b64decode(told, validate=True)
        except binascii.Error as wrong:
            raise CannotConvert(f"{where} is not base64: {wrong}") from None
    if schema.kind in (Kind.FLOAT32, Kind.FLOAT64):
        return float(told) if isinstance(told, Decimal) else _FLOATS.get(told, told) if isinstance(told, str) else told
    if schema.kind is Kind.MAP and isinstance(told, list):
        try:
            return dict(told)
        except (TypeError, ValueError):
            raise CannotConvert(f"{where} is a map, but not every entry is a pair") from None
    return told
