"""TimestampConverter: times as text, as Unix time, and as Kafka Connect's types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Any, ClassVar, Literal

from odradek.connect.options import option
from odradek.connect.records import (
    DATE,
    DATES,
    INT64,
    STRING,
    TIME,
    TIMES,
    TIMESTAMP,
    TIMESTAMPS,
    Field,
    Kind,
    Record,
    Schema,
)
from odradek.connect.transforms.java_dates import DateFormat
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
from odradek.connect.values import EPOCH, WrongType, milliseconds, moment_of

_SCHEMAS = {"string": STRING, "unix": INT64, "Date": DATES, "Time": TIMES, "Timestamp": TIMESTAMPS}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampConverterOptions(NullOptions):
    field: str = option("The field with the time; empty: the whole value.", default="", importance="HIGH")
    target_type: Literal["string", "unix", "Date", "Time", "Timestamp"] = option("The new type.", importance="HIGH")
    format: str = option("The format of texts, as in Java's SimpleDateFormat; in UTC.", default="")
    unix_precision: Literal["seconds", "milliseconds", "microseconds", "nanoseconds"] = option(
        "The unit of Unix times.", default="milliseconds", importance="LOW"
    )


class TimestampConverter(OnPart):
    """Converts a time to another type."""

    Config: ClassVar[type] = TimestampConverterOptions

    def __init__(self, config: TimestampConverterOptions) -> None:
        if config.target_type == "string" and not config.format.strip():
            raise ValueError('"target.type=string" needs a "format"')
        self._field = config.field
        self._target = config.target_type
        self._format = DateFormat(config.format) if config.format.strip() else None
        self._precision = config.unix_precision
        self._defaults = config.replace_null_with_default
        self._converted = SchemaCache(self._schema)

    def _type_schema(self, *, optional: bool) -> Schema:
        return replace(_SCHEMAS[self._target], optional=optional)

    def _schema(self, schema: Schema) -> Schema:
        fields = tuple(
            Field(
                field.name,
                self._type_schema(optional=field.schema.optional) if field.name == self._field else field.schema,
            )
            for field in schema.fields
        )
        default = schema.default
        if isinstance(default, dict):
            default = {**default, self._field: self._of_field(schema, default)}
        return replace(plain_struct(schema, fields), optional=schema.optional, default=default)

    def _of_field(self, schema: Schema, value: dict[str, Any]) -> object:
        field = next((field for field in schema.fields if field.name == self._field), None)
        if field is None:
            return None
        return self._convert(field_value(value, field, defaults=self._defaults), _type_of(field.schema))

    def apply(self, record: Record) -> Record:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            if value is None or not self._field:
                return self.changed(record, None, self._convert(value, None))
            before = dict(as_map(value, "converting timestamp formats"))
            return self.changed(record, None, before | {self._field: self._convert(before.get(self._field), None)})
        if not self._field:
            after_schema = self._type_schema(optional=schema.optional)
            return self.changed(record, after_schema, self._convert(value, _type_of(schema)))
        if value is None:
            return self.changed(record, self._converted(schema), None)
        struct = dict(as_struct(schema, value, "converting timestamp formats"))
        after = {field.name: field_value(struct, field, defaults=self._defaults) for field in schema.fields}
        if self._field in after:
            after[self._field] = self._of_field(schema, struct)
        return self.changed(record, self._converted(schema), after)

    def _convert(self, value: Any, kind: str | None) -> object:  # noqa: ANN401
        if value is None:
            return None
        try:
            return self._as_target(self._moment(value, kind or _inferred(value)))
        except (WrongType, OverflowError, ValueError) as wrong:
            raise CannotTransform(f"the time {value!r} cannot be converted: {wrong}") from None

    def _moment(self, value: Any, kind: str) -> datetime:  # noqa: ANN401
        if kind == "unix":
            return moment_of(_TO_MS[self._precision](value))
        if kind == "string":
            if self._format is None:
                raise ValueError('it is text, and there is no "format" to read it')
            return self._format.moment(value)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        return datetime.combine(value if isinstance(value, date) else EPOCH.date(), _clock(value), tzinfo=UTC)

    def _as_target(self, at: datetime) -> object:
        match self._target:
            case "string":
                return self._format.text(at) if self._format is not None else ""
            case "unix":
                return _FROM_MS[self._precision](milliseconds(at))
            case "Date":
                return at.astimezone(UTC).date()
            case "Time":
                return at.astimezone(UTC).time()
            case "Timestamp":
                return at


def _clock(value: object) -> time:
    return value if isinstance(value, time) else time(0)


def _type_of(schema: Schema) -> str:
    if schema.name in (TIMESTAMP, DATE, TIME):
        return "Timestamp"
    if schema.kind is Kind.STRING:
        return "string"
    if schema.kind is Kind.INT64:
        return "unix"
    raise CannotTransform(f"a {schema.kind} is not a time")


def _inferred(value: object) -> str:
    match value:
        case str():
            return "string"
        case int() if not isinstance(value, bool):
            return "unix"
        case date() | time():
            return "Timestamp"
    raise ValueError(f"a {type(value).__name__} is not a time")


def _truncated(number: int, by: int) -> int:
    """Java's division, which rounds towards zero."""
    return number // by if number >= 0 else -(-number // by)


_TO_MS: dict[str, Callable[[int], int]] = {
    "seconds": lambda at: at * 1000,
    "milliseconds": lambda at: at,
    "microseconds": lambda at: _truncated(at, 1000),
    "nanoseconds": lambda at: _truncated(at, 1_000_000),
}
_FROM_MS: dict[str, Callable[[int], int]] = {
    "seconds": lambda ms: _truncated(ms, 1000),
    "milliseconds": lambda ms: ms,
    "microseconds": lambda ms: ms * 1000,
    "nanoseconds": lambda ms: ms * 1_000_000,
}


class TimestampConverterKey(OnKey, TimestampConverter):
    """Kafka's `TimestampConverter$Key`."""


class TimestampConverterValue(OnValue, TimestampConverter):
    """Kafka's `TimestampConverter$Value`."""
