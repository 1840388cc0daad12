"""MaskField: fields with an empty value of their type, or with a replacement."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

from odradek.connect.java_numbers import parsed_float, single, wrapped
from odradek.connect.options import not_empty, option
from odradek.connect.records import Kind, Record, Schema
from odradek.connect.transforms.parts import (
    CannotTransform,
    NullOptions,
    OnKey,
    OnPart,
    OnValue,
    as_map,
    as_struct,
    field_value,
)

_BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32}


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskFieldOptions(NullOptions):
    fields: list[str] = option("The fields to mask.", importance="HIGH", check=not_empty)
    replacement: str | None = option("The value instead; of texts and numbers only.", default=None, importance="LOW")


class MaskField(OnPart):
    """Hides the values of fields. A null stays null."""

    Config: ClassVar[type] = MaskFieldOptions

    def __init__(self, config: MaskFieldOptions) -> None:
        self._fields = frozenset(config.fields)
        self._replacement = config.replacement
        self._defaults = config.replace_null_with_default

    def apply(self, record: Record) -> Record:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            before = dict(as_map(value, "mask fields"))
            masked = {name: self._masked(None, before.get(name)) for name in self._fields}
            return self.changed(record, None, before | masked)
        struct = as_struct(schema, value, "mask fields")
        after: dict[str, Any] = {}
        for field in schema.fields:
            found = field_value(struct, field, defaults=self._defaults)
            after[field.name] = self._masked(field.schema, found) if field.name in self._fields else found
        return self.changed(record, schema, after)

    def _masked(self, schema: Schema | None, value: Any) -> Any:  # noqa: ANN401
        if value is None:
            return None
        if schema is not None and schema.kind is Kind.STRUCT:
            raise CannotTransform("a struct cannot be masked")
        return _emptied(value) if self._replacement is None else _replaced(schema, value, self._replacement)


def _emptied(value: Any) -> Any:  # noqa: ANN401
    match value:
        case bool() | int() | float() | str() | list() | dict() | Decimal():
            return type(value)()
        case datetime():
            return datetime(1970, 1, 1, tzinfo=UTC)
        case date():
            return date(1970, 1, 1)
        case time():
            return time(0)
    raise CannotTransform(f"a value of type {type(value).__name__} cannot be masked")


def _replaced(schema: Schema | None, value: Any, replacement: str) -> Any:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise CannotTransform(f"a value of type {type(value).__name__} has no replacement: only texts and numbers have")
    if isinstance(value, str):
        return replacement
    try:
        if isinstance(value, float):
            number = parsed_float(replacement)
            return single(number) if schema is not None and schema.kind is Kind.FLOAT32 else number
        exact = Decimal(replacement)
    except (ValueError, InvalidOperation):
        raise CannotTransform(f"the replacement {replacement!r} is not a number") from None
    if isinstance(value, Decimal):
        return exact
    return wrapped(int(exact), _BITS.get(schema.kind, 64) if schema is not None else 64)


class MaskFieldKey(OnKey, MaskField):
    """Kafka's `MaskField$Key`."""


class MaskFieldValue(OnValue, MaskField):
    """Kafka's `MaskField$Value`."""
