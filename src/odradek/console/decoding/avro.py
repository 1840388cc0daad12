"""Avro bodies as documents: a reader of our own.

It needs no extra package, and it is bounded: nine bytes may announce an array of 2^55 nulls, which a library would
build. The schema is compiled to nested functions of the bytes and a position.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from odradek.console.decoding.interface import Undecodable
from odradek.console.words import counted

VALUES_MAX = 200_000  # of one body
DEPTH_MAX = 60
SCHEMA_CHARS_MAX = 1 << 20
SCHEMA_TYPES_MAX = 10_000
DECIMAL_BYTES_MAX = 1_000

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Schema = Any  # as JSON


class Body:
    """The bytes of one body, and what may still be read from it."""

    __slots__ = ("at", "data", "depth", "values")

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.values, self.depth = data, 0, VALUES_MAX, DEPTH_MAX

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise Undecodable(
                f"{counted(size, 'byte is', 'bytes are')} announced at byte {self.at} of {len(self.data)}"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self) -> int:
        """A zigzag varint of at most ten bytes."""
        value = shift = 0
        while shift < 70:
            if self.at >= len(self.data):
                raise Undecodable("the body is shorter than its schema requires")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise Undecodable(f"a number before byte {self.at} does not end")

    def spend(self, values: int) -> None:
        self.values -= values
        if self.values < 0:
            raise Undecodable(f"the body has more than {VALUES_MAX} values")


Read = Callable[[Body], Any]


class AvroSchema:
    """A compiled schema. Raises Undecodable if the text is no Avro schema.

    `references` are the texts of schemas whose types the schema uses by name.
    """

    def __init__(self, text: str, references: Sequence[str] = ()) -> None:
        if len(text) + sum(map(len, references)) > SCHEMA_CHARS_MAX:
            raise Undecodable(f"the Avro schema has more than {SCHEMA_CHARS_MAX} characters")
        try:
            compiler = _Compiler()
            for each in references:
                compiler.compiled(json.loads(each), "")
            schema = json.loads(text)
            self._read = compiler.compiled(schema, "")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as wrong:
            raise Undecodable(f"not an Avro schema: {wrong!r}") from None
        self.name = _full_name(schema, "") if isinstance(schema, dict) and "name" in schema else str(text)[:40]

    def document(self, data: bytes) -> Any:  # noqa: ANN401 (what JSON can express)
        body = Body(data)
        found = self._read(body)
        if body.at != len(data):
            left = counted(len(data) - body.at, "byte follows", "bytes follow")
            raise Undecodable(f"{left} the body: it was written with another schema")
        return found


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name: str = schema["name"]
    if "." in name:
        return name
    within = schema.get("namespace", namespace)
    return f"{within}.{name}" if within else name


class _Compiler:
    def __init__(self) -> None:
        self._named: dict[str, Read] = {}
        self._types = 0

    def compiled(self, schema: Schema, namespace: str) -> Read:
        self._types += 1
        if self._types > SCHEMA_TYPES_MAX:
            raise ValueError(f"more than {SCHEMA_TYPES_MAX} types")
        if isinstance(schema, list):
            return _union([self.compiled(branch, namespace) for branch in schema])
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._reference(schema, namespace)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.compiled(kind, namespace)
        logical = _LOGICAL.get((schema.get("logicalType", ""), kind))
        if kind in ("record", "error"):
            return self._record(schema, namespace)
        if kind == "enum":
            return self._register(schema, namespace, _enum(list(schema["symbols"])))
        if kind == "fixed":
            return self._register(schema, namespace, _fixed(int(schema["size"]), schema))
        if kind == "array":
            return _array(self.compiled(schema["items"], namespace))
        if kind == "map":
            return _map(self.compiled(schema["values"], namespace))
        if kind == "bytes" and schema.get("logicalType") == "decimal":
            return _decimal_bytes(int(schema.get("scale", 0)))
        return logical or self.compiled(kind, namespace)

    def _reference(self, name: str, namespace: str) -> Read:
        """A named type, which may be defined further below, or around this place."""
        choices = [name] if "." in name or not namespace else [f"{namespace}.{name}", name]

        def read(body: Body) -> Any:  # noqa: ANN401
            known = next((self._named[each] for each in choices if each in self._named), None)
            if known is None:
                raise Undecodable(f"the schema does not define the type {name!r}")
            return known(body)

        return read

    def _register(self, schema: Mapping[str, Any], namespace: str, read: Read) -> Read:
        self._named[_full_name(schema, namespace)] = read
        return read

    def _record(self, schema: Mapping[str, Any], namespace: str) -> Read:
        name = _full_name(schema, namespace)
        within = name.rpartition(".")[0]
        fields: list[tuple[str, Read]] = []

        def read(body: Body) -> dict[str, Any]:
            body.depth -= 1
            if body.depth < 0:
                raise Undecodable(f"records are nested more than {DEPTH_MAX} deep")
            body.spend(len(fields) + 1)
            found = {field: one(body) for field, one in fields}
            body.depth += 1
            return found

        self._register(schema, namespace, read)
        fields += [(str(field["name"]), self.compiled(field["type"], within)) for field in schema["fields"]]
        return read


def _null(_body: Body) -> None:
    return None


def _boolean(body: Body) -> bool:
    return body.take(1) != b"\0"


def _float(body: Body) -> float:
    return float(_FLOAT.unpack(body.take(4))[0])


def _double(body: Body) -> float:
    return float(_DOUBLE.unpack(body.take(8))[0])


def _bytes(body: Body) -> str:
    return body.take(body.number()).hex()


def _string(body: Body) -> str:
    return body.take(body.number()).decode(errors="replace")


_PRIMITIVES: Mapping[str, Read] = {
    "null": _null,
    "boolean": _boolean,
    "int": Body.number,
    "long": Body.number,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}


def _union(branches: list[Read]) -> Read:
    def read(body: Body) -> Any:  # noqa: ANN401
        index = body.number()
        if not 0 <= index < len(branches):
            raise Undecodable(f"branch {index} of a union of {len(branches)}")
        return branches[index](body)

    return read


def _enum(symbols: list[str]) -> Read:
    def read(body: Body) -> str:
        index = body.number()
        if not 0 <= index < len(symbols):
            raise Undecodable(f"symbol {index} of an enum of {len(symbols)}")
        return symbols[index]

    return read


def _fixed(size: int, schema: Mapping[str, Any]) -> Read:
    if schema.get("logicalType") == "decimal":
        scale = int(schema.get("scale", 0))
        return lambda body: _decimal(body.take(size), scale)
    return lambda body: body.take(size).hex()


def _decimal_bytes(scale: int) -> Read:
    return lambda body: _decimal(body.take(body.number()), scale)


def _decimal(data: bytes, scale: int) -> str:
    """As text: a JSON number would lose digits."""
    if len(data) > DECIMAL_BYTES_MAX or abs(scale) > DECIMAL_BYTES_MAX:
        raise Undecodable(f"a decimal of {counted(len(data), 'byte')}")
    unscaled = int.from_bytes(data, "big", signed=True)
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return str(Decimal((int(unscaled < 0), digits, -scale)))


def _blocks(body: Body) -> int:
    """The count of the next block of an array or map; 0 at the end."""
    count = body.number()
    if count < 0:
        body.number()  # the bytes of the block
        count = -count
    body.spend(count)
    return count


def _array(item: Read) -> Read:
    def read(body: Body) -> list[Any]:
        body.depth -= 1
        if body.depth < 0:
            raise Undecodable(f"arrays are nested more than {DEPTH_MAX} deep")
        found: list[Any] = []
        while count := _blocks(body):
            found += [item(body) for _ in range(count)]
        body.depth += 1
        return found

    return read


def _map(item: Read) -> Read:
    def read(body: Body) -> dict[str, Any]:
        body.depth -= 1
        if body.depth < 0:
            raise Undecodable(f"maps are nested more than {DEPTH_MAX} deep")
        found: dict[str, Any] = {}
        while count := _blocks(body):
            for _ in range(count):
                key = _string(body)
                found[key] = item(body)
        body.depth += 1
        return found

    return read


def _moment(per_second: int, ending: str) -> Read:
    def read(body: Body) -> Any:  # noqa: ANN401 (text, or the number itself if no calendar has it)
        number = body.number()
        try:
            moment = _EPOCH + timedelta(microseconds=number * 1_000_000 // per_second)
        except OverflowError:
            return number
        return moment.replace(tzinfo=None).isoformat() + ending

    return read


def _date(body: Body) -> Any:  # noqa: ANN401
    days = body.number()
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return days


def _time(per_second: int) -> Read:
    def read(body: Body) -> Any:  # noqa: ANN401
        number = body.number()
        micros = number * (1_000_000 // per_second)
        if not 0 <= micros < 86_400_000_000:
            return number
        seconds, rest = divmod(micros, 1_000_000)
        return time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest).isoformat()

    return read


_LOGICAL: Mapping[tuple[str, str], Read] = {
    ("date", "int"): _date,
    ("time-millis", "int"): _time(1_000),
    ("time-micros", "long"): _time(1_000_000),
    ("timestamp-millis", "long"): _moment(1_000, "Z"),
    ("timestamp-micros", "long"): _moment(1_000_000, "Z"),
    ("timestamp-nanos", "long"): _moment(1_000_000_000, "Z"),
    ("local-timestamp-millis", "long"): _moment(1_000, ""),
    ("local-timestamp-micros", "long"): _moment(1_000_000, ""),
}
