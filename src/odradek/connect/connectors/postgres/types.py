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

from odradek.connect import records
from odradek.connect.connectors.postgres.arrays import elements
from odradek.connect.connectors.postgres.catalog import Catalog, PgType
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


def _named(schema: Schema, name: str, **parameters: str) -> Schema:
    return replace(schema, name=f"io.debezium.{name}", version=1, parameters=parameters)


def _text(value: bytes) -> str:
    return value.decode()


TEXT = Mapped(records.STRING, _text, "")
FIXED: dict[str, Mapped] = {
    "bool": Mapped(records.BOOLEAN, lambda value: value == b"t", False),
    "int2": Mapped(records.INT16, int, 0),
    "int4": Mapped(records.INT32, int, 0),
    "int8": Mapped(records.INT64, int, 0),
    "oid": Mapped(records.INT64, int, 0),
    "float4": Mapped(records.FLOAT32, float, 0.0),
    "float8": Mapped(records.FLOAT64, float, 0.0),
    "json": Mapped(_named(records.STRING, "data.Json"), _text, "{}"),
    "jsonb": Mapped(_named(records.STRING, "data.Json"), _text, "{}"),
    "uuid": Mapped(_named(records.STRING, "data.Uuid"), _text, ""),
    "xml": Mapped(_named(records.STRING, "data.Xml"), _text, ""),
    "ltree": Mapped(_named(records.STRING, "data.Ltree"), _text, ""),
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
POINT = _named(
    records.struct(
        {
            "x": records.FLOAT64,
            "y": records.FLOAT64,
            "wkb": records.BYTES.or_null(),
            "srid": records.INT32.or_null(),
        }
    ),
    "data.geometry.Point",
)
VARIABLE_DECIMAL = _named(records.struct({"scale": records.INT32, "value": records.BYTES}), "data.VariableScaleDecimal")


class Types:
    """Maps types by a connector's options."""

    def __init__(self, config: PostgresCdcConfig, catalog: Catalog) -> None:
        self._config = config
        self._catalog = catalog

    def mapped(self, oid: int, modifier: int) -> Mapped | None:
        """None for a type that is left out."""
        found = self._catalog.type(oid)
        while found is not None and found.kind == "d":
            oid, modifier = found.base, found.base_modifier if modifier == -1 else modifier
            found = self._catalog.type(oid)
        mapped = self._of(found, modifier) if found is not None else None
        if mapped is None and self._config.include_unknown_datatypes:
            return Mapped(records.BYTES, bytes, b"")
        return mapped

    def _of(self, kind: PgType, modifier: int) -> Mapped | None:  # noqa: C901 (a table of types)
        if kind.is_array and kind.element:
            return self._array(kind, modifier)
        if kind.kind == "e":
            return Mapped(_named(records.STRING, "data.Enum", allowed=",".join(kind.labels)), _text, "")
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
                return Mapped(_named(records.STRING, "time.ZonedTimestamp"), _zoned, "1970-01-01T00:00:00Z")
            case "timetz":
                return Mapped(_named(records.STRING, "time.ZonedTime"), _zoned_time, "00:00:00Z")
            case "interval":
                return Mapped(_named(records.INT64, "time.MicroDuration"), _duration_us, 0)
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
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        if scale > 1_023:  # negative: the number is rounded to the left of the point
            scale -= 2_048
        return Mapped(records.decimal(scale, precision), lambda value: Decimal(value.decode()), Decimal(0))

    def _temporal(self, name: str, modifier: int) -> Mapped:
        is_coarse = 0 <= modifier <= 3
        mode = self._config.time_precision_mode
        if mode == "connect":
            return CONNECT_TIMES[name]
        if name == "date":
            return Mapped(_named(records.INT32, "time.Date"), _days, 0)
        if name == "time":
            if is_coarse and mode == "adaptive":
                return Mapped(_named(records.INT32, "time.Time"), lambda value: _time_us(value) // 1_000, 0)
            return Mapped(_named(records.INT64, "time.MicroTime"), _time_us, 0)
        if is_coarse:
            return Mapped(_named(records.INT64, "time.Timestamp"), lambda value: _timestamp_us(value) // 1_000, 0)
        return Mapped(_named(records.INT64, "time.MicroTimestamp"), _timestamp_us, 0)

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
        return int(value or b"0", 2).to_bytes((len(value) + 7) // 8, "little")

    return Mapped(_named(records.BYTES, "data.Bits", length=length), little_endian, b"")


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


def _zoned(value: bytes) -> str:
    """The session is in UTC: the offset is always +00."""
    text = value.decode()
    if "infinity" in text:
        return text
    day, _, rest = text.partition(" ")
    clock, _, era = rest.partition(" ")
    return f"{'-' if era else ''}{day}T{clock.removesuffix('+00')}Z"


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


def _as_datetime(value: bytes) -> datetime:
    return datetime.fromisoformat(_finite(value.decode()) + "+00:00")


MIDNIGHT = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
CONNECT_TIMES = {
    "date": Mapped(records.DATES, lambda value: date.fromisoformat(_finite(value.decode())), date(1970, 1, 1)),
    "time": Mapped(records.TIMES, lambda value: (MIDNIGHT + timedelta(microseconds=_time_us(value))).time(), time(0)),
    "timestamp": Mapped(records.TIMESTAMPS, _as_datetime, MIDNIGHT),
}
