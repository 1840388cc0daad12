"""The wire format of Protocol Buffers: the fields of one message, without a schema.

Strict: everything that a field announces must be there, groups (a deprecated form) are refused, and nothing is copied
before its length is known to be right. Nesting is up to the caller, which decodes only the messages that it knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10

_double = Struct("<d").unpack_from
_signed = Struct("<q").unpack_from
_unsigned = Struct("<Q").unpack_from

# Number, wire type, and the value: an integer, or the raw bytes.
ProtoField = tuple[int, int, int | memoryview]


class MalformedProtobuf(Exception):
    """The bytes are not a message."""


class TooManyFields(Exception):
    """More fields than the reader may read."""


class FieldReader:
    """Reads the fields of a message and of the messages in it, up to a number of fields in all."""

    __slots__ = ("_left",)

    def __init__(self, fields_max: int) -> None:
        self._left = fields_max

    def fields(self, message: memoryview) -> Iterator[ProtoField]:
        position, end = 0, len(message)
        while position < end:
            self._left -= 1
            if self._left < 0:
                raise TooManyFields
            key, position = _varint(message, position, end)
            number, wire_type = key >> 3, key & 7
            if not number:
                raise MalformedProtobuf("a field has the number 0")
            if wire_type == VARINT:
                value, position = _varint(message, position, end)
                yield number, wire_type, value
                continue
            if wire_type == BYTES:
                length, position = _varint(message, position, end)
            elif wire_type == FIXED64:
                length = 8
            elif wire_type == FIXED32:
                length = 4
            else:
                raise MalformedProtobuf(f"field {number} has the wire type {wire_type}")
            if length > end - position:
                raise MalformedProtobuf(f"field {number} announces {length} bytes, and {end - position} are left")
            yield number, wire_type, message[position : position + length]
            position += length


def _varint(message: memoryview, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    for place in range(position, min(end, position + _VARINT_BYTES_MAX)):
        byte = message[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
        shift += 7
    raise MalformedProtobuf("a number does not end")


def number_of(field: ProtoField) -> int:
    number, wire_type, value = field
    if wire_type != VARINT or not isinstance(value, int):
        raise MalformedProtobuf(f"field {number} is not a number")
    return value


def signed_of(field: ProtoField) -> int:
    value = number_of(field)
    return value - (1 << 64) if value >= 1 << 63 else value


def bytes_of(field: ProtoField) -> memoryview:
    number, wire_type, value = field
    if wire_type != BYTES or isinstance(value, int):
        raise MalformedProtobuf(f"field {number} has no length")
    return value


def text_of(field: ProtoField) -> str:
    try:
        return str(bytes_of(field), "utf-8")
    except UnicodeDecodeError as broken:
        raise MalformedProtobuf(f"field {field[0]} is not UTF-8") from broken


def double_of(field: ProtoField) -> float:
    value: float = _double(_eight_bytes(field))[0]
    return value


def sfixed64_of(field: ProtoField) -> int:
    value: int = _signed(_eight_bytes(field))[0]
    return value


def _eight_bytes(field: ProtoField) -> memoryview:
    number, wire_type, value = field
    if wire_type != FIXED64 or isinstance(value, int):
        raise MalformedProtobuf(f"field {number} has not 8 bytes")
    return value
