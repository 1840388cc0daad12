"""Protobuf bodies as documents, with the schema of a registry or without one.

A reader of our own, as for Avro: it needs no package, and it bounds the values and the depth of a hostile payload.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from odradek.console.decoding.interface import Undecodable
from odradek.console.decoding.proto_text import SCALARS, ProtoEnum, ProtoField, ProtoFile, ProtoMessage, parsed_proto
from odradek.console.words import counted

FIELDS_MAX = 200_000  # of one body, with those of nested messages
DEPTH_MAX = 60
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_WELL_KNOWN = """
syntax = "proto3"; package google.protobuf;
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
message Duration { int64 seconds = 1; int32 nanos = 2; }
message Any { string type_url = 1; bytes value = 2; }
message Empty {}
message FieldMask { repeated string paths = 1; }
message DoubleValue { double value = 1; } message FloatValue { float value = 1; }
message Int64Value { int64 value = 1; } message UInt64Value { uint64 value = 1; }
message Int32Value { int32 value = 1; } message UInt32Value { uint32 value = 1; }
message BoolValue { bool value = 1; } message StringValue { string value = 1; } message BytesValue { bytes value = 1; }
message Struct { map<string, Value> fields = 1; }
message ListValue { repeated Value values = 1; }
message Value { oneof kind { int32 null_value = 1; double number_value = 2; string string_value = 3;
    bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6; } }
"""


class _Budget:
    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields = FIELDS_MAX

    def spend(self) -> None:
        self.fields -= 1
        if self.fields < 0:
            raise Undecodable(f"the body has more than {FIELDS_MAX} fields")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise Undecodable(f"a number before byte {at} does not end")


def _fields(data: bytes, budget: _Budget) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type, and the varint or the bytes of each field."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise Undecodable(f"field 0 at byte {at}")
        budget.spend()
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
        else:
            raise Undecodable(f"wire type {wire} at byte {at}")
        if size > len(data) - at:
            raise Undecodable(f"{counted(size, 'byte is', 'bytes are')} announced at byte {at} of {len(data)}")
        yield number, wire, data[at : at + size]
        at += size


# --- without a schema


def without_schema(data: bytes) -> dict[str, Any]:
    """Fields by number. Bytes are text, a nested message or hex, whichever fits first."""
    return _guessed(data, _Budget(), DEPTH_MAX)


def _guessed(data: bytes, budget: _Budget, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, wire, value in _fields(data, budget):
        name = str(number)
        guess = _guess(wire, value, budget, depth)
        if name in found:
            before = found[name]
            found[name] = [*before, guess] if isinstance(before, list) and len(before) < 1000 else [before, guess]
        else:
            found[name] = guess
    return found


def _guess(wire: int, value: Any, budget: _Budget, depth: int) -> Any:  # noqa: ANN401
    if wire == _VARINT:
        return value
    if wire == _FIXED64:
        return struct.unpack("<d", value)[0]
    if wire == _FIXED32:
        return struct.unpack("<f", value)[0]
    try:
        text: str = value.decode()
    except UnicodeDecodeError:
        pass
    else:
        if text.isprintable():
            return text
    if depth:
        try:
            return _guessed(value, budget, depth - 1)
        except Undecodable:
            if budget.fields < 0:
                raise
    return value.hex()


# --- with a schema


class ProtobufSchema:
    """A .proto file of a registry and the files that it imports. Raises Undecodable if it cannot be used."""

    def __init__(self, text: str, references: Sequence[str] = ()) -> None:
        known = _well_known()
        for each in references:
            known = parsed_proto(each, known)
        self._file = parsed_proto(text, known)
        if not self._file.top:
            raise Undecodable("the schema has no message")
        self.name = self._file.top[0].full_name

    def document(self, data: bytes) -> Any:  # noqa: ANN401
        """A body in Confluent's framing, without the schema's id: the path of the message comes first."""
        message, at = self._chosen(data)
        try:
            return _Typed(self._file).message(message, data[at:], DEPTH_MAX)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as strange:
            # For example a schema with its own google.protobuf.Timestamp, whose fields are others.
            raise Undecodable(f"the schema of {message.full_name} is not as expected: {strange!r}") from strange

    def _chosen(self, data: bytes) -> tuple[ProtoMessage, int]:
        count, at = _signed(data, 0)
        path = [0] if count == 0 else []
        if not 0 <= count <= DEPTH_MAX:
            raise Undecodable(f"the path of the message has {count} steps")
        for _ in range(count):
            index, at = _signed(data, at)
            path.append(index)
        choices: tuple[ProtoMessage, ...] | list[ProtoMessage] = self._file.top
        message = None
        for index in path:
            if not 0 <= index < len(choices):
                raise Undecodable(f"the schema has no message {path}")
            message = choices[index]
            choices = message.nested
        if message is None:
            raise Undecodable("the path of the message is empty")
        return message, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


class _Typed:
    def __init__(self, file: ProtoFile) -> None:
        self._file = file
        self._budget = _Budget()

    def message(self, message: ProtoMessage, data: bytes, depth: int) -> Any:  # noqa: ANN401
        if depth == 0:
            raise Undecodable(f"messages are nested more than {DEPTH_MAX} deep")
        found: dict[str, Any] = {}
        for number, wire, value in _fields(data, self._budget):
            field = message.fields.get(number)
            if field is None:  # a newer schema
                found[f"#{number}"] = _guess(wire, value, self._budget, depth)
            elif field.key_kind:
                self._entry(found, field, value, wire, depth)
            elif field.is_repeated:
                found.setdefault(field.name, []).extend(self._items(field, wire, value, depth))
            else:
                found[field.name] = self._single(field.kind, wire, value, depth)
        for field in message.fields.values():
            if not field.has_presence and not field.is_repeated and not field.key_kind:
                found.setdefault(field.name, self._default(field.kind))
        special = _SPECIAL.get(message.full_name)
        return special(found) if special else found

    def _default(self, kind: str) -> Any:  # noqa: ANN401
        enum = self._file.enums.get(kind)
        if enum is not None:
            return enum.names.get(0, "0")
        return {"string": "", "bytes": "", "bool": False, "double": 0.0, "float": 0.0}.get(kind, 0)

    def _entry(self, found: dict[str, Any], field: ProtoField, data: Any, wire: int, depth: int) -> None:  # noqa: ANN401
        if wire != _BYTES:
            raise Undecodable(f"the map {field.name} has wire type {wire}")
        key: Any = self._default(field.key_kind)
        value: Any = None if field.kind in self._file.messages else self._default(field.kind)
        for number, inner, each in _fields(data, self._budget):
            if number == 1:
                key = self._single(field.key_kind, inner, each, depth)
            elif number == 2:
                value = self._single(field.kind, inner, each, depth)
        found.setdefault(field.name, {})[str(key)] = value

    def _items(self, field: ProtoField, wire: int, value: Any, depth: int) -> Iterator[Any]:  # noqa: ANN401
        if wire != _BYTES or field.kind in ("string", "bytes") or field.kind in self._file.messages:
            yield self._single(field.kind, wire, value, depth)
            return
        own = _WIRES.get(field.kind, _VARINT)  # packed
        at = 0
        while at < len(value):
            self._budget.spend()
            if own == _VARINT:
                one: Any
                one, at = _varint(value, at)
            else:
                size = 4 if own == _FIXED32 else 8
                one, at = value[at : at + size], at + size
            yield self._single(field.kind, own, one, depth)

    def _single(self, kind: str, wire: int, value: Any, depth: int) -> Any:  # noqa: ANN401
        expected = _WIRES.get(kind, _BYTES if kind in self._file.messages else _VARINT)
        if wire != expected:
            raise Undecodable(f"a {kind} has wire type {wire}, expected {expected}")
        if kind in SCALARS:
            return _scalar(kind, value)
        enum: ProtoEnum | None = self._file.enums.get(kind)
        if enum is not None:
            number = _as_signed(value, 64)
            return enum.names.get(number, str(number))
        return self.message(self._file.messages[kind], value, depth - 1)


_WIRES: Mapping[str, int] = {
    **dict.fromkeys(("double", "fixed64", "sfixed64"), _FIXED64),
    **dict.fromkeys(("float", "fixed32", "sfixed32"), _FIXED32),
    **dict.fromkeys(("string", "bytes"), _BYTES),
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool"), _VARINT),
}
_FIXED: Mapping[str, str] = {
    "double": "<d",
    "float": "<f",
    "fixed32": "<I",
    "fixed64": "<Q",
    "sfixed32": "<i",
    "sfixed64": "<q",
}


def _scalar(kind: str, value: Any) -> Any:  # noqa: ANN401
    if kind in _FIXED:
        try:
            return struct.unpack(_FIXED[kind], value)[0]
        except struct.error as short:
            raise Undecodable(f"a {kind} of {counted(len(value), 'byte')}") from short
    match kind:
        case "string":
            return value.decode(errors="replace")
        case "bytes":
            return value.hex()
        case "bool":
            return bool(value)
        case "sint32" | "sint64":
            return (value >> 1) ^ -(value & 1)
        case "int32":
            return _as_signed(value & 0xFFFF_FFFF, 32)
        case "int64":
            return _as_signed(value, 64)
        case "uint32":
            return value & 0xFFFF_FFFF
    return value


def _as_signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _timestamp(found: dict[str, Any]) -> Any:  # noqa: ANN401
    try:
        moment = _EPOCH + timedelta(seconds=found["seconds"], microseconds=found["nanos"] // 1000)
    except OverflowError:
        return found
    return moment.replace(tzinfo=None).isoformat() + "Z"


def _duration(found: dict[str, Any]) -> str:
    return f"{found['seconds'] + found['nanos'] / 1e9:g}s"


def _value(found: dict[str, Any]) -> Any:  # noqa: ANN401
    return None if "null_value" in found else next(iter(found.values()), None)


_SPECIAL: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.Value": _value,
    "google.protobuf.Struct": lambda found: found.get("fields", {}),
    "google.protobuf.ListValue": lambda found: found.get("values", []),
    **{
        f"google.protobuf.{name}Value": lambda found: found["value"]
        for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
    },
}

_known: list[ProtoFile] = []


def _well_known() -> ProtoFile:
    if not _known:
        _known.append(parsed_proto(_WELL_KNOWN))
    return _known[0]
