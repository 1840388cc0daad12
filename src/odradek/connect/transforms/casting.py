"""Cast: fields or the whole value as another simple type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

from odradek.connect.java_numbers import integer_of, parsed_float, parsed_integer, single
from odradek.connect.literals import literal_text
from odradek.connect.options import not_empty, option
from odradek.connect.records import Field, Kind, Record, Schema
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
from odradek.connect.values import LOGICAL, to_plain

_BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
TARGETS = {
    "int8": Kind.INT8,
    "int16": Kind.INT16,
    "int32": Kind.INT32,
    "int64": Kind.INT64,
    "float32": Kind.FLOAT32,
    "float64": Kind.FLOAT64,
    "boolean": Kind.BOOLEAN,
    "string": Kind.STRING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CastOptions(NullOptions):
    spec: list[str] = option(
        f"Types of fields, as field:type; or one type for the whole value. Types: {', '.join(TARGETS)}.",
        importance="HIGH",
        check=not_empty,
    )


class Cast(OnPart):
    """Changes the types of fields, or of the whole value."""

    Config: ClassVar[type] = CastOptions

    def __init__(self, config: CastOptions) -> None:
        pairs = [_pair(text) for text in config.spec]
        self._fields = {name: target for name, target in pairs if name is not None}
        self._whole = next((target for name, target in pairs if name is None), None)
        if self._whole is not None and len(pairs) > 1:
            raise ValueError('"spec" has a type for the whole value, so it cannot have more')
        self._defaults = config.replace_null_with_default
        self._recast = SchemaCache(self._schema)

    def _schema(self, schema: Schema) -> Schema:
        if self._whole is not None:
            return replace(
                schema, kind=self._whole, default=cast(schema, schema.default, self._whole), fields=(), items=None
            )
        fields = tuple(Field(field.name, self._of_field(field)) for field in schema.fields)
        return replace(plain_struct(schema, fields), optional=schema.optional)

    def _of_field(self, field: Field) -> Schema:
        target = self._fields.get(field.name)
        if target is None:
            return field.schema
        default = cast(field.schema, field.schema.default, target)
        return Schema(kind=target, optional=field.schema.optional, default=default)

    def apply(self, record: Record) -> Record:
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        after_schema = None if schema is None else self._recast(schema)
        if self._whole is not None:
            return self.changed(record, after_schema, cast(schema, value, self._whole))
        if schema is None:
            before = dict(as_map(value, "cast types"))
            cast_fields = {name: cast(None, before.get(name), target) for name, target in self._fields.items()}
            return self.changed(record, None, before | cast_fields)
        struct = as_struct(schema, value, "cast types")
        after: dict[str, Any] = {}
        for field in schema.fields:
            found = field_value(struct, field, defaults=self._defaults)
            target = self._fields.get(field.name)
            after[field.name] = found if target is None else cast(field.schema, found, target)
        return self.changed(record, after_schema, after)


def _pair(text: str) -> tuple[str | None, Kind]:
    """A field and its type; None for the whole value."""
    name, colon, kind = text.rpartition(":")
    if ":" in name:
        raise ValueError(f'"spec" has {text!r}, but it needs pairs such as field:int32')
    if kind.strip().lower() not in TARGETS:
        raise ValueError(f'"spec" has the type {kind!r}, but it must be one of {", ".join(TARGETS)}')
    return (name.strip() if colon else None), TARGETS[kind.strip().lower()]


class CastKey(OnKey, Cast):
    """Kafka's `Cast$Key`."""


class CastValue(OnValue, Cast):
    """Kafka's `Cast$Value`."""


def cast(schema: Schema | None, value: Any, target: Kind) -> Any:  # noqa: ANN401
    """A simple value as another type. Raises CannotTransform."""
    if value is None:
        return None
    if isinstance(value, dict | list | tuple):
        raise CannotTransform(f"a {type(value).__name__} cannot be cast to {target}")
    if target is Kind.STRING:
        return literal_text(schema, value)
    if schema is not None and schema.name in LOGICAL and not isinstance(value, Decimal):
        value = to_plain(schema, value)
    try:
        return _CASTS[target](value, target)
    except ValueError as wrong:
        raise CannotTransform(f"the cast to {target} failed: {wrong}") from None


def _integer(value: Any, target: Kind) -> int:  # noqa: ANN401
    bits = _BITS[target]
    if isinstance(value, str):
        return parsed_integer(value, bits)
    return integer_of(_number(value), bits)


def _float(value: Any, target: Kind) -> float:  # noqa: ANN401
    number = parsed_float(value) if isinstance(value, str) else float(_number(value))
    return single(number) if target is Kind.FLOAT32 else number


def _boolean(value: Any, _: Kind) -> bool:  # noqa: ANN401
    return value.lower() == "true" if isinstance(value, str) else integer_of(_number(value), 64) != 0


def _number(value: Any) -> int | float | Decimal:  # noqa: ANN401
    if isinstance(value, int | float | Decimal):
        return int(value) if isinstance(value, bool) else value
    raise ValueError(f"a value of type {type(value).__name__} is not a number")


_CASTS: dict[Kind, Callable[[Any, Kind], object]] = {
    **dict.fromkeys(_BITS, _integer),
    Kind.FLOAT32: _float,
    Kind.FLOAT64: _float,
    Kind.BOOLEAN: _boolean,
}
