"""Debezium's mapping of the types of MariaDB and MySQL: the schema of a column, and its value."""

from __future__ import annotations

import base64
import datetime as dt
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from odradek.connect import records
from odradek.connect.connectors.debezium import named
from odradek.connect.connectors.mysql.config import MysqlCdcConfig
from odradek.connect.records import Schema

Convert = Callable[[Any], Any]

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)  # the server's times have no zone
EPOCH_DAY = dt.date(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
SRID_BYTES = 4
INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "inet4", "inet6"})
BINARIES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
SHAPES = frozenset(
    {
        "geometry",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """A type as both the binlog and information_schema can tell it. `scale` is also the precision of times."""

    name: str
    unsigned: bool = False
    precision: int = 0
    scale: int = 0
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mapped:
    """`fallback` stands for a date such as 0000-00-00 in a column without nulls: Debezium's choice."""

    schema: Schema
    convert: Convert
    fallback: object = None


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


GEOMETRY_FIELDS = {"wkb": records.BYTES, "srid": records.INT32.or_null()}
GEOMETRY = named(records.struct(GEOMETRY_FIELDS), "data.geometry.Geometry")
POINT = named(
    records.struct(
        {"x": records.FLOAT64, "y": records.FLOAT64, "wkb": records.BYTES.or_null()} | {"srid": records.INT32.or_null()}
    ),
    "data.geometry.Point",
)


def mapped(kind: ColumnType, config: MysqlCdcConfig) -> Mapped | None:  # noqa: C901 (a table of types)
    """None for a type that is left out."""
    name = kind.name
    if name in INTEGERS:
        return _integer(kind, config)
    if name in TEXTS:
        return Mapped(records.STRING, _text)
    if name in BINARIES:
        return _binary(config)
    if name in SHAPES:
        return Mapped(GEOMETRY, lambda value: {"wkb": value[SRID_BYTES:], "srid": _srid(value)})
    match name:
        case "point":
            return Mapped(POINT, _point)
        case "float":
            return Mapped(records.FLOAT32, lambda value: struct.unpack("<f", struct.pack("<f", float(value)))[0])
        case "double":
            return Mapped(records.FLOAT64, float)
        case "decimal":
            return _decimal(kind, config)
        case "bit":
            return _bits(kind.precision)
        case "json":
            return Mapped(named(records.STRING, "data.Json"), _text)
        case "enum":
            return Mapped(named(records.STRING, "data.Enum", allowed=",".join(kind.labels)), _text)
        case "set":
            labels = kind.labels
            schema = named(records.STRING, "data.EnumSet", allowed=",".join(labels))
            return Mapped(schema, lambda value: _members(value, labels), "")
        case "year":
            # The library adds 1900 to the year 0.
            return Mapped(named(records.INT32, "time.Year"), lambda value: 0 if int(value) == 1900 else int(value))
        case "date" | "time" | "datetime" | "timestamp":
            return _temporal(kind, config)
    return None


def _integer(kind: ColumnType, config: MysqlCdcConfig) -> Mapped:
    bits = INTEGERS[kind.name]
    if kind.name == "bigint" and kind.unsigned:
        if config.bigint_unsigned_handling_mode == "precise":
            return Mapped(records.decimal(0), Decimal)
        return Mapped(records.INT64, lambda value: value - (1 << 64) if value >= 1 << 63 else value)
    needed = bits + kind.unsigned
    if needed <= 16:
        return Mapped(records.INT16, int)
    return Mapped(records.INT32 if needed <= 32 else records.INT64, int)


def _decimal(kind: ColumnType, config: MysqlCdcConfig) -> Mapped:
    match config.decimal_handling_mode:
        case "string":
            return Mapped(records.STRING, lambda value: f"{value:f}")
        case "double":
            return Mapped(records.FLOAT64, float)
        case "precise":
            return Mapped(records.decimal(kind.scale, kind.precision), Decimal)


def _binary(config: MysqlCdcConfig) -> Mapped:
    match config.binary_handling_mode:
        case "bytes":
            return Mapped(records.BYTES, _raw)
        case "hex":
            return Mapped(records.STRING, lambda value: _raw(value).hex())
        case "base64":
            return Mapped(records.STRING, lambda value: base64.b64encode(_raw(value)).decode())
        case "base64-url-safe":
            return Mapped(records.STRING, lambda value: base64.urlsafe_b64encode(_raw(value)).decode())


def _raw(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _bits(length: int) -> Mapped:
    """The library has digits, the server's rows bytes."""

    def number(value: str | bytes) -> int:
        return int(value, 2) if isinstance(value, str) else int.from_bytes(value, "big")

    if length == 1:
        return Mapped(records.BOOLEAN, lambda value: number(value) == 1)
    size = (length + 7) // 8
    return Mapped(
        named(records.BYTES, "data.Bits", length=str(length)), lambda value: number(value).to_bytes(size, "little")
    )


def _members(value: str | bytes | Collection[str], labels: tuple[str, ...]) -> str:
    if isinstance(value, str | bytes):
        return _text(value)
    return ",".join(label for label in labels if label in value)


def _temporal(kind: ColumnType, config: MysqlCdcConfig) -> Mapped:
    is_connect = config.time_precision_mode == "connect"
    if kind.name == "timestamp":
        return Mapped(named(records.STRING, "time.ZonedTimestamp"), _zoned(kind.scale), "1970-01-01T00:00:00Z")
    if kind.name == "date":
        if is_connect:
            return Mapped(records.DATES, _date, EPOCH_DAY)
        return Mapped(named(records.INT32, "time.Date"), lambda value: (_date(value) - EPOCH_DAY).days, 0)
    if kind.name == "time":
        duration = _duration(kind.scale)
        if is_connect:
            return Mapped(records.TIMES, lambda value: (EPOCH + _within_a_day(duration(value))).time(), dt.time(0))
        return Mapped(named(records.INT64, "time.MicroTime"), lambda value: duration(value) // MICROSECOND, 0)
    if is_connect:
        return Mapped(
            records.TIMESTAMPS, lambda value: _moment(value).replace(tzinfo=dt.UTC), EPOCH.replace(tzinfo=dt.UTC)
        )
    if kind.scale <= 3:
        return Mapped(named(records.INT64, "time.Timestamp"), lambda value: _micros(value) // 1_000, 0)
    return Mapped(named(records.INT64, "time.MicroTimestamp"), _micros, 0)


class ZeroDate(ValueError):
    """A date such as 0000-00-00, which Python does not have."""


def _date(value: object) -> dt.date:
    if not isinstance(value, dt.date):
        raise ZeroDate(str(value))
    return value


def _moment(value: object) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        raise ZeroDate(str(value))
    return value


def _micros(value: object) -> int:
    return (_moment(value) - EPOCH) // MICROSECOND


def _duration(scale: int) -> Callable[[object], dt.timedelta]:
    def duration(value: object) -> dt.timedelta:
        if not isinstance(value, dt.timedelta):
            raise TypeError(f"{value!r} is not a time")
        if scale and value < dt.timedelta(0):
            # The library that reads the binlog takes the fraction of a negative time for positive.
            raise ValueError(f"a negative TIME({scale}) cannot be captured; leave the column out, or use TIME(0)")
        return value

    return duration


def _within_a_day(value: dt.timedelta) -> dt.timedelta:
    if not dt.timedelta(0) <= value < dt.timedelta(days=1):
        raise ValueError(f"the time {value} is not within a day: use time.precision.mode=adaptive_time_microseconds")
    return value


def _zoned(scale: int) -> Convert:
    def zoned(value: object) -> str:
        """As Debezium writes it: without zeros at the end of the fraction, but at most of the column's precision."""
        moment = _moment(value)
        fraction = f".{moment.microsecond:06d}"[: scale + 1].rstrip("0").rstrip(".") if scale else ""
        return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"

    return zoned


def _srid(value: bytes) -> int | None:
    return int.from_bytes(value[:SRID_BYTES], "little") or None


def _point(value: bytes) -> dict[str, object]:
    wkb = value[SRID_BYTES:]
    order = "<" if wkb[0] else ">"
    _, x, y = struct.unpack_from(f"{order}Idd", wkb, 1)
    return {"x": x, "y": y, "wkb": wkb, "srid": _srid(value)}
