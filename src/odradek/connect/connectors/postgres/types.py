"""Debezium's mapping of PostgreSQL's types: the schema of a column, and its value from PostgreSQL's text."""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

from odradek.connect import records
from odradek.connect.connectors.debezium import named
from odradek.connect.connectors.postgres.arrays import elements
from odradek.connect.connectors.postgres.catalog import Catalog, PgType, TableColumn
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.records import Kind, Schema

Decode = Callable[[bytes], Any]

DAY_US = 86_400_000_000
EPOCH_DAY = date(1970, 1, 1).toordinal()
DAYS_PER_MONTH = 365.25 / 12
INTERVAL = re.compile(r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?")


@dataclass(frozen=True, slots=True)
class Mapped:
    """`fallback` stands for a value that is required but not known: Debezium's choice for rows of deletes."""

    schema: Schema
    decode: Decode
    fallback: object = None


def _text(value: bytes) -> str:
    return value.decode()


JSON = named(records.STRING, "data.Json")
CONSTANT = re.compile(r"(?:'(?P<text>(?:[^']|'')*)'|\(?(?P<plain>-?[\d.]+|true|false)\)?)(?:::.+)?", re.DOTALL)
TRUTH = {"true": "t", "false": "f"}
HSTORE = re.compile(r'"(?P<key>(?:[^"\\]|\\.)*)"=>(?:NULL|"(?P<value>(?:[^"\\]|\\.)*)")', re.DOTALL)
TEXT = Mapped(records.STRING, _text, "")
FIXED: dict[str, Mapped] = {
    "bool": Mapped(records.BOOLEAN, lambda value: value == b"t", False),
    "int2": Mapped(records.INT16, int, 0),
    "int4": Mapped(records.INT32, int, 0),
    "int8": Mapped(records.INT64, int, 0),
    "oid": Mapped(records.INT64, int, 0),
    "float4": Mapped(records.FLOAT32, float, 0.0),
    "float8": Mapped(records.FLOAT64, float, 0.0),
    "json": Mapped(JSON, _text, "{}"),
    "jsonb": Mapped(JSON, _text, "{}"),
    "uuid": Mapped(named(records.STRING, "data.Uuid"), _text, ""),
    "xml": Mapped(named(records.STRING, "data.Xml"), _text, ""),
    "ltree": Mapped(named(records.STRING, "data.Ltree"), _text, ""),
}
TEXTS = frozenset(
    [
        "text",
        "varchar",
        "bpchar",
        "char",
        "name",
        "citext",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "int4range",
        "int8range",
        "numrange",
        "tsrange",
        "tstzrange",
        "daterange",
    ]
)
POINT = replace(
    named(
        records.struct(
            {
                "x": records.FLOAT64,
                "y": records.FLOAT64,
                "wkb": records.BYTES.or_null(),
                "srid": records.INT32.or_null(),
            }
        ),
        "data.geometry.Point",
    ),
    doc="Geometry (POINT)",
)
VARIABLE_DECIMAL = replace(
    named(records.struct({"scale": records.INT32, "value": records.BYTES}), "data.VariableScaleDecimal"),
    doc="Variable scaled decimal",
)


class Types:
    """Maps types by a connector's options."""

    def __init__(self, config: PostgresCdcConfig, catalog: Catalog) -> None:
        self._config = config
        self._catalog = catalog

    def with_default(self, column: TableColumn) -> Mapped | None:
        """A default that is a constant becomes part of the schema. One of a sequence counts as 0, as in Debezium."""
        mapped = self.mapped(column.type_oid, column.type_modifier)
        if mapped is None or column.default is None:
            return mapped
        if column.default.startswith("nextval("):
            return replace(mapped, schema=replace(mapped.schema, default=0)) if column.is_required else mapped
        found = CONSTANT.fullmatch(column.default)
        if found is None:
            return mapped
        text = found["text"].replace("''", "'") if found["text"] is not None else found["plain"]
        try:
            default = mapped.decode(self._written(column, TRUTH.get(text, text)).encode())
        except (ValueError, ArithmeticError):  # PostgreSQL writes it in another form than values
            return mapped
        return replace(mapped, schema=replace(mapped.schema, default=default), fallback=default)

    def _written(self, column: TableColumn, text: str) -> str:
        """A number with as many digits after the point as the column has, as in its values."""
        kind = self._catalog.type(column.type_oid)
        if kind is None or kind.name != "numeric" or column.type_modifier < 0:
            return text
        return str(Decimal(text).quantize(Decimal(1).scaleb(-_scale(column.type_modifier))))

    def mapped(self, oid: int, modifier: int) -> Mapped | None:
        """None for a type that is left out."""
        found = self._catalog.type(oid)
        while found is not None and found.kind == "d":
            oid, modifier = found.base, found.base_modifier if modifier == -1 else modifier
            found = self._catalog.type(oid)
        mapped = self._of(found, modifier) if found is not None else None
        if mapped is None and self._config.include_unknown_datatypes:
            return _unknown(binary(self._config.binary_handling_mode))
        return mapped

    def _of(self, kind: PgType, modifier: int) -> Mapped | None:  # noqa: C901 (a table of types)
        if kind.is_array and kind.element:
            return self._array(kind, modifier)
        if kind.kind == "e":
            return Mapped(named(records.STRING, "data.Enum", allowed=",".join(kind.labels)), _text, "")
        if kind.name in TEXTS:
            return TEXT
        if kind.name in FIXED:
            return FIXED[kind.name]
        match kind.name:
            case "bytea":
                return binary(self._config.binary_handling_mode)
            case "bit" | "varbit":
                return _bits(modifier, is_varying=kind.name == "varbit")
            case "numeric":
                return self._numeric(modifier)
            case "date" | "time" | "timestamp":
                return self._temporal(kind.name, modifier)
            case "timestamptz":
                return _zoned_timestamp(modifier)
            case "timetz":
                return Mapped(named(records.STRING, "time.ZonedTime"), _zoned_time, "00:00:00Z")
            case "interval":
                if self._config.interval_handling_mode == "string":
                    return Mapped(named(records.STRING, "time.Interval"), _interval, "P0Y0M0DT0H0M0S")
                return Mapped(named(records.INT64, "time.MicroDuration"), _duration_us, 0)
            case "money":
                return self._money()
            case "hstore" if self._config.hstore_handling_mode == "map":
                return Mapped(records.mapping(records.STRING, records.STRING.or_null()), _hstore, {})
            case "hstore":
                return Mapped(JSON, lambda value: msgspec.json.encode(_hstore(value)).decode(), "{}")
            case "tsvector":
                return Mapped(named(records.STRING, "data.Tsvector"), _text, "")
            case "point":
                return Mapped(POINT, _point, None)
            case _:
                return None

    def _array(self, kind: PgType, modifier: int) -> Mapped | None:
        of = self.mapped(kind.element, modifier)
        if of is None:
            return None
        decode = of.decode
        return Mapped(records.array(of.schema.or_null()), lambda value: elements(value.decode(), decode), [])

    def _numeric(self, modifier: int) -> Mapped:
        if self._config.decimal_handling_mode == "string":
            return Mapped(records.STRING, _text, "")
        if self._config.decimal_handling_mode == "double":
            return Mapped(records.FLOAT64, float, 0.0)
        if modifier < 0:
            return Mapped(VARIABLE_DECIMAL, _variable_decimal, {"scale": 0, "value": b"\0"})
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, _scale(modifier)
        return Mapped(records.decimal(scale, precision), lambda value: Decimal(value.decode()), Decimal(0))

    def _money(self) -> Mapped:
        """The session is in the locale C: dollars, with commas."""
        match self._config.decimal_handling_mode:
            case "string":
                return Mapped(records.STRING, lambda value: str(_dollars(value)), "")
            case "double":
                return Mapped(records.FLOAT64, lambda value: float(_dollars(value)), 0.0)
            case "precise":
                digits = self._config.money_fraction_digits
                unit = Decimal(1).scaleb(-digits)
                return Mapped(records.decimal(digits), lambda value: _dollars(value).quantize(unit), Decimal(0))

    def _temporal(self, name: str, modifier: int) -> Mapped:
        is_coarse = 0 <= modifier <= 3
        mode = self._config.time_precision_mode
        if mode == "connect":
            return CONNECT_TIMES[name]
        if name == "date":
            return Mapped(named(records.INT32, "time.Date"), _days, 0)
        if name == "time":
            if is_coarse and mode == "adaptive":
                return Mapped(named(records.INT32, "time.Time"), lambda value: _time_us(value) // 1_000, 0)
            return Mapped(named(records.INT64, "time.MicroTime"), _time_us, 0)
        if is_coarse:
            return Mapped(named(records.INT64, "time.Timestamp"), lambda value: _timestamp_us(value) // 1_000, 0)
        return Mapped(named(records.INT64, "time.MicroTimestamp"), _timestamp_us, 0)

    def unavailable(self, schema: Schema) -> object:
        """What stands for a value that the server did not send."""
        text = self._config.unavailable_value_placeholder
        match schema.kind:
            case Kind.STRING:
                return text
            case Kind.BYTES if schema.name != records.DECIMAL:
                return text.encode()
            case Kind.ARRAY if schema.items is not None and schema.items.kind is Kind.STRING:
                return [text]
            case _:
                return None


def _scale(modifier: int) -> int:
    """The scale of a numeric. Negative: the value is rounded to the left of the point."""
    scale = (modifier - 4) & 0x7FF
    return scale - 2_048 if scale > 1_023 else scale


def binary(mode: str) -> Mapped:
    match mode:
        case "hex":
            return Mapped(records.STRING, lambda value: value[2:].decode(), "")
        case "base64":
            return Mapped(records.STRING, lambda value: base64.b64encode(_raw(value)).decode(), "")
        case "base64-url-safe":
            return Mapped(records.STRING, lambda value: base64.urlsafe_b64encode(_raw(value)).decode(), "")
        case _:
            return Mapped(records.BYTES, _raw, b"")


def _raw(value: bytes) -> bytes:
    return bytes.fromhex(value[2:].decode())


def _bits(modifier: int, *, is_varying: bool) -> Mapped:
    if modifier == 1 and not is_varying:
        return Mapped(records.BOOLEAN, lambda value: value == b"1", False)
    length = str(modifier) if modifier > 0 else str(2**31 - 1)

    def little_endian(value: bytes) -> bytes:
        return int(value or b"0", 2).to_bytes((len(value) + 7) // 8, "little").rstrip(b"\0")

    return Mapped(named(records.BYTES, "data.Bits", length=length), little_endian, b"")


def _variable_decimal(value: bytes) -> dict[str, object] | None:
    number = Decimal(value.decode())
    if not number.is_finite():
        return None
    sign, digits, exponent = number.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return {"scale": -int(exponent), "value": unscaled.to_bytes(size, "big", signed=True)}


@lru_cache(maxsize=4_096)
def _date(text: str) -> int:
    """Days since 1970, also for years after 9999 and before Christ."""
    is_before_christ = text.endswith(" BC")
    year, month, day = map(int, text.removesuffix(" BC").split("-"))
    year = 1 - year if is_before_christ else year
    cycles, within = divmod(year, 400)  # the calendar repeats after 400 years of 146097 days
    return date(within + 400, month, day).toordinal() - EPOCH_DAY + (cycles - 1) * 146_097


def _finite(text: str) -> str:
    if "infinity" in text:
        raise ValueError(f"{text!r} has no number in this time.precision.mode")
    return text


def _days(value: bytes) -> int:
    return _date(_finite(value.decode()))


def _time_us(value: bytes) -> int:
    hours, minutes, seconds = value.decode().split(":")
    whole, _, fraction = seconds.partition(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0") or 0)


def _timestamp_us(value: bytes) -> int:
    text = value.decode()
    if text == "infinity":
        return 9_223_372_036_825_200_000
    if text == "-infinity":
        return -9_223_372_036_832_400_000
    day, _, rest = text.partition(" ")
    clock, _, era = rest.partition(" ")
    return _date(f"{day} {era}" if era else day) * DAY_US + _time_us(clock.encode())


def _zoned_timestamp(modifier: int) -> Mapped:
    """As many digits after the point as the column has."""
    digits = 6 if modifier < 0 else modifier
    fraction = f".{'0' * digits}" if digits else ""

    def zoned(value: bytes) -> str:
        """The session is in UTC: the offset is always +00."""
        text = value.decode()
        if "infinity" in text:
            return text
        day, _, rest = text.partition(" ")
        clock, _, era = rest.partition(" ")
        clock = clock.removesuffix("+00")
        if digits:
            clock = f"{clock}{fraction}" if len(clock) == 8 else clock.ljust(9 + digits, "0")
        return f"{_year_0(day) if era else day}T{clock}Z"

    return Mapped(named(records.STRING, "time.ZonedTimestamp"), zoned, f"1970-01-01T00:00:00{fraction}Z")


def _year_0(day: str) -> str:
    """A day before Christ as ISO 8601 counts: the year 1 BC is 0."""
    year, _, rest = day.partition("-")
    before = int(year) - 1
    return f"{'-' if before else ''}{before:04d}-{rest}"


def _unknown(of: Mapped) -> Mapped:
    """The text of a value of an unknown type, as bytes."""
    return Mapped(of.schema, lambda value: of.decode(b"\\x" + value.hex().encode()), of.fallback)


def _dollars(value: bytes) -> Decimal:
    return Decimal(value.decode().replace("$", "").replace(",", ""))


def _hstore(value: bytes) -> dict[str, str | None]:
    def text(found: str) -> str:
        return re.sub(r"\\(.)", r"\1", found, flags=re.DOTALL)

    return {
        text(found["key"]): None if found["value"] is None else text(found["value"])
        for found in HSTORE.finditer(value.decode())
    }


def _interval(value: bytes) -> str:
    found = INTERVAL.fullmatch(value.decode())
    if found is None:
        raise ValueError(f"{value!r} is not an interval")
    years, months, days, hours, minutes, seconds = (part or "0" for part in found.groups())
    return f"P{years}Y{months}M{days}DT{hours}H{minutes}M{seconds}S"


def _zoned_time(value: bytes) -> str:
    found = re.fullmatch(rb"([\d:.]+)([+-])(\d+)(?::(\d+))?(?::(\d+))?", value)
    if found is None:
        return value.decode()
    clock, sign, hours, minutes, seconds = found.groups()
    away = (int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)) * (1 if sign == b"+" else -1)
    at_us = (_time_us(clock) - away * 1_000_000) % DAY_US
    minute, us = divmod(at_us, 60_000_000)
    fraction = f".{us % 1_000_000:06d}".rstrip("0").rstrip(".")
    return f"{minute // 60:02d}:{minute % 60:02d}:{us // 1_000_000:02d}{fraction}Z"


def _duration_us(value: bytes) -> int:
    found = INTERVAL.fullmatch(value.decode())
    if found is None:
        raise ValueError(f"{value!r} is not an interval")
    years, months, days, hours, minutes = (int(part or 0) for part in found.groups()[:5])
    seconds = Decimal(found[6] or 0)
    whole_days = (years * 12 + months) * DAYS_PER_MONTH + days
    return math.trunc(whole_days * DAY_US) + (hours * 60 + minutes) * 60_000_000 + int(seconds * 1_000_000)


def _point(value: bytes) -> dict[str, object]:
    x, y = map(float, value[1:-1].split(b","))
    return {"x": x, "y": y, "wkb": struct.pack("<BIdd", 1, 1, x, y), "srid": None}


def _as_date(value: bytes) -> date | int:
    """Days since 1970 for a date that Python does not have: before the year 1 or after 9999."""
    try:
        return date.fromisoformat(_finite(value.decode()))
    except ValueError:
        return _days(value)


def _as_datetime(value: bytes) -> datetime | int:
    """Milliseconds since 1970 for one that Python does not have."""
    try:
        return datetime.fromisoformat(_finite(value.decode()) + "+00:00")
    except ValueError:
        return _timestamp_us(value) // 1_000


def _as_time(value: bytes) -> time | int:
    """Milliseconds for 24:00, which Python does not have."""
    at_us = _time_us(value)
    return (MIDNIGHT + timedelta(microseconds=at_us)).time() if at_us < DAY_US else at_us // 1_000


MIDNIGHT = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
CONNECT_TIMES = {
    "date": Mapped(records.DATES, _as_date, date(1970, 1, 1)),
    "time": Mapped(records.TIMES, _as_time, time(0)),
    "timestamp": Mapped(records.TIMESTAMPS, _as_datetime, MIDNIGHT),
}
