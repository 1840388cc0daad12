"""Values of headers as text, as Kafka Connect's SimpleHeaderConverter reads and writes them.

Text that looks like a number, a boolean, a time in ISO format, an array or a map becomes one, with its schema.
"""

from __future__ import annotations

import base64
import math
import re
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from odradek.connect.java_numbers import float_text, single
from odradek.connect.records import (
    BOOLEAN,
    DATES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIMES,
    TIMESTAMPS,
    Kind,
    Schema,
    array,
    decimal,
    mapping,
)

_QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"'})
Typed = tuple[Schema | None, Any]

DEPTH_MAX = 50
_TOKEN = re.compile(
    r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s\[\]{},:"][^\[\]{},"]*?)\s*(?=[\[\]{},:]|$)|([\[\]{},:]))', re.DOTALL
)
_WIDENING = [Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.FLOAT32, Kind.FLOAT64]
_INTEGERS = [(INT8, 7), (INT16, 15), (INT32, 31), (INT64, 63)]


class _NotALiteral(ValueError):
    pass


def parsed_literal(text: str) -> Typed:
    """The schema and the value. Text that is nothing else is text."""
    stripped = text.strip()
    if not stripped:
        return STRING, text
    if stripped[0] in "[{":
        try:
            found, at = _nested(stripped, 0, 0)
        except _NotALiteral:
            return STRING, text
        return found if at == len(stripped) else (STRING, text)
    scalar = _scalar(stripped)
    return (STRING, text) if scalar is None else scalar


def _scalar(text: str) -> Typed | None:
    if text in ("null", "true", "false"):
        return {"null": (None, None), "true": (BOOLEAN, True), "false": (BOOLEAN, False)}[text]
    if not (text[0].isdigit() or text[0] in "+-"):
        return None
    return _temporal(text.replace("\\:", ":")) or _number(text)


def _temporal(text: str) -> Typed | None:
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return DATES, date.fromisoformat(text)
        if re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}Z", text):
            return TIMES, time.fromisoformat(text[:-1])
        if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text):
            return TIMESTAMPS, datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
    except ValueError:
        return None
    return None


def _number(text: str) -> Typed | None:
    if not re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > 2_000:
        return None
    if number == number.to_integral_value() and abs(number) <= Decimal("1e19"):
        whole = int(number)
        for schema, bits in _INTEGERS:
            if -(1 << bits) <= whole < 1 << bits:
                return schema, whole
    if exponent != 0:
        short = single(float(number))
        if not math.isinf(short):
            return FLOAT32, short
        if not math.isinf(float(number)):
            return FLOAT64, float(number)
    return decimal(-exponent), number


def _next(text: str, at: int) -> tuple[re.Match[str], int]:
    found = _TOKEN.match(text, at)
    if found is None:
        raise _NotALiteral
    return found, found.end()


def _nested(text: str, at: int, depth: int) -> tuple[Typed, int]:
    if depth > DEPTH_MAX:
        raise _NotALiteral
    token, after = _next(text, at)
    if token[1] is not None:
        said = re.sub(r"\\(.)", r"\1", token[1])
        return _temporal(said) or (STRING, said), after
    if token[2] is not None:
        found = _scalar(token[2])
        if found is None:
            raise _NotALiteral
        return found, after
    if token[3] == "[":
        return _array(text, after, depth)
    if token[3] == "{":
        return _map(text, after, depth)
    raise _NotALiteral


def _array(text: str, at: int, depth: int) -> tuple[Typed, int]:
    items: list[Typed] = []
    while True:
        token, after = _next(text, at)
        if token[3] == "]":
            schema = _common(items)
            return (None if schema is None else array(schema), [value for _, value in items]), after
        if items:
            if token[3] != ",":
                raise _NotALiteral
            at = after
        item, at = _nested(text, at, depth + 1)
        items.append(item)


def _map(text: str, at: int, depth: int) -> tuple[Typed, int]:
    keys: list[Typed] = []
    items: list[Typed] = []
    while True:
        token, after = _next(text, at)
        if token[3] == "}":
            key_schema, item_schema = _common(keys), _common(items)
            schema = None if key_schema is None or item_schema is None else mapping(key_schema, item_schema)
            return (schema, {key: value for (_, key), (_, value) in zip(keys, items, strict=True)}), after
        if keys:
            if token[3] != ",":
                raise _NotALiteral
            at = after
        key, at = _nested(text, at, depth + 1)
        if isinstance(key[1], list | dict | None):
            raise _NotALiteral
        colon, at = _next(text, at)
        if colon[3] != ":":
            raise _NotALiteral
        item, at = _nested(text, at, depth + 1)
        keys.append(key)
        items.append(item)


def _common(items: list[Typed]) -> Schema | None:
    """The schema of all items: the widest number, optional if one of them is null. None if they differ."""
    schemas = [schema for schema, value in items if value is not None]
    if not schemas or any(schema is None for schema in schemas):
        return None
    known = [schema for schema in schemas if schema is not None]
    widest = known[0]
    for schema in known[1:]:
        if schema.kind in _WIDENING and widest.kind in _WIDENING and not schema.name and not widest.name:
            widest = max(schema, widest, key=lambda each: _WIDENING.index(each.kind))
        elif schema != widest:
            return None
    return replace(widest, optional=True) if len(schemas) < len(items) else widest


def literal_text(schema: Schema | None, value: object, *, embedded: bool = False) -> str:
    """A value as text that `parsed_literal` reads again. Texts inside arrays and maps are quoted."""
    match value:
        case None:
            return "null"
        case str():
            return f'"{value.translate(_QUOTED)}"' if embedded else value
        case bool():
            return str(value).lower()
        case float():
            return float_text(value, is_single=schema is not None and schema.kind is Kind.FLOAT32)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            text = iso_text(value)
            return f'"{text}"' if embedded else text
        case list() | tuple():
            of_item = schema.items if schema is not None else None
            return f"[{','.join(literal_text(of_item, item, embedded=True) for item in value)}]"
        case dict():
            return f"{{{','.join(_entry(schema, key, item) for key, item in value.items())}}}"
        case _:
            return str(value)


def _entry(schema: Schema | None, key: object, item: object) -> str:
    of_item = None if schema is None else schema.items or (schema.of(key) if isinstance(key, str) else None)
    return f"{literal_text(None, key, embedded=True)}:{literal_text(of_item, item, embedded=True)}"


def iso_text(value: datetime | date | time) -> str:
    """As Kafka prints dates: midnight as a date alone, the first day of 1970 as a time alone."""
    if isinstance(value, time):
        return f"{value.isoformat('milliseconds')[:12]}Z"
    if not isinstance(value, datetime):
        return value.isoformat() if value != date(1970, 1, 1) else "00:00:00.000Z"
    clock = f"{value.time().isoformat('milliseconds')}Z"
    if value.date() <= date(1970, 1, 1):
        return clock
    return value.date().isoformat() if value.time() == time(0) else f"{value.date().isoformat()}T{clock}"
