"""Values of Kafka Connect's logical types as the plain types that formats store: days, milliseconds, bytes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any

from odradek.connect.records import DATE, DECIMAL, TIME, TIMESTAMP, Kind, Schema

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_DAY = EPOCH.date()
MS = timedelta(milliseconds=1)
DIGITS_MAX = 2_000
LOGICAL = frozenset({DECIMAL, DATE, TIME, TIMESTAMP})

INTEGER_BITS = {Kind.INT8: 7, Kind.INT16: 15, Kind.INT32: 31, Kind.INT64: 63}


class WrongType(ValueError):
    """A value that is not of the type that its schema says."""


def scale_of(schema: Schema) -> int:
    text = schema.parameters.get("scale", "0")
    try:
        return int(text)
    except ValueError:
        raise WrongType(f"the scale of a decimal is {text!r}, which is not an integer") from None


def unscaled(value: Decimal, scale: int) -> int:
    """The integer that a decimal is stored as. A value with more digits after the point than `scale` is refused."""
    with localcontext() as context:
        context.prec = DIGITS_MAX
        scaled = value.scaleb(scale)
        if not value.is_finite() or scaled != scaled.to_integral_value():
            raise WrongType(f"the decimal {value} does not have the scale {scale}")
        return int(scaled)


def decimal_bytes(value: Decimal, scale: int) -> bytes:
    whole = unscaled(value, scale)
    # As many bytes as Java's BigInteger takes: one bit is the sign.
    bits = whole.bit_length() if whole >= 0 else (whole + 1).bit_length()
    return whole.to_bytes(bits // 8 + 1, "big", signed=True)


def decimal_of(data: bytes, scale: int) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS_MAX
        return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale)


def milliseconds(moment: datetime) -> int:
    """Since 1970. A time without a zone is in UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MS


def moment_of(milliseconds_: int) -> datetime:
    try:
        return EPOCH + milliseconds_ * MS
    except OverflowError:
        raise WrongType(f"{milliseconds_} ms since 1970 is not in the years 1 to 9999") from None


def _days(day: date) -> int:
    return (day - FIRST_DAY).days


def _day_of(days: int) -> date:
    try:
        return FIRST_DAY + timedelta(days=days)
    except OverflowError:
        raise WrongType(f"{days} days since 1970 is not in the years 1 to 9999") from None


def _day_ms(at: time) -> int:
    return ((at.hour * 60 + at.minute) * 60 + at.second) * 1000 + at.microsecond // 1000


def _time_of(day_ms: int) -> time:
    if not 0 <= day_ms < 86_400_000:
        raise WrongType(f"{day_ms} ms is not a time of day")
    return (EPOCH + day_ms * MS).time()


_TO_PLAIN: dict[str, tuple[type, Callable[[Any], object]]] = {
    DATE: (date, _days),
    TIME: (time, _day_ms),
    TIMESTAMP: (datetime, milliseconds),
}
_FROM_PLAIN: dict[str, Callable[[Any], object]] = {DATE: _day_of, TIME: _time_of, TIMESTAMP: moment_of}


def to_plain(schema: Schema, value: object) -> object:
    """Days, milliseconds and unscaled bytes for logical types; other values stay as they are."""
    if schema.name == DECIMAL and isinstance(value, Decimal):
        return decimal_bytes(value, scale_of(schema))
    if schema.name in _TO_PLAIN:
        kind, convert = _TO_PLAIN[schema.name]
        if isinstance(value, kind):
            return convert(value)
    return value


def from_plain(schema: Schema, value: object) -> object:
    """The Python value of a logical type."""
    if schema.name == DECIMAL and isinstance(value, bytes):
        return decimal_of(value, scale_of(schema))
    if schema.name in _FROM_PLAIN and isinstance(value, int):
        return _FROM_PLAIN[schema.name](value)
    return value


def checked(schema: Schema, value: object, where: str) -> object:
    """A plain value, if it is of the schema's type. Raises WrongType, which names the field."""
    kind = schema.kind
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if kind in INTEGER_BITS:
        fits = is_int and -(1 << INTEGER_BITS[kind]) <= value < 1 << INTEGER_BITS[kind]  # type: ignore[operator]
    elif kind in (Kind.FLOAT32, Kind.FLOAT64):
        fits = is_int or isinstance(value, float)
        value = float(value) if is_int else value  # type: ignore[arg-type]
    else:
        fits = isinstance(value, _TYPES[kind])
    if not fits:
        raise WrongType(f"{where} is {_shown(value)}, but its schema says {kind}")
    return value


_TYPES: dict[Kind, type | tuple[type, ...]] = {
    Kind.BOOLEAN: bool,
    Kind.STRING: str,
    Kind.BYTES: (bytes, bytearray, memoryview),
    Kind.ARRAY: (list, tuple),
    Kind.MAP: dict,
    Kind.STRUCT: dict,
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
