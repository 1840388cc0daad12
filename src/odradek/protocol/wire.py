"""Varints, tagged sections and errors that the compiled codecs share.

Readers take the bytes of one message and a position. Reading past the end raises IndexError, which the callers
(`Message.decode`, `decode_request_header`) turn into `MalformedMessage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from odradek.base import limits
from odradek.protocol.malformed import MalformedMessage

Readable = bytes | memoryview
UINT32_MAX = 0xFFFFFFFF


def read_uvarint(data: Readable, position: int) -> tuple[int, int]:
    first = data[position]
    if first < 0x80:
        return first, position + 1
    return finish_uvarint(data, position + 1, first)


def finish_uvarint(data: Readable, position: int, first: int) -> tuple[int, int]:
    """Read the rest of a varint with more than one byte."""
    second = data[position]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 1
    third = data[position + 1]
    value = first & 0x7F | (second & 0x7F) << 7 | (third & 0x7F) << 14
    position += 2
    if third < 0x80:
        return value, position
    for shift in (21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 and value <= UINT32_MAX:
            return value, position
    raise MalformedMessage("a varint is longer than 32 bits")


_SMALL = tuple(bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80, value >> 7]) for value in range(256))


def uvarint(value: int) -> bytes:
    if value < 256:
        return _SMALL[value]
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80)) + uvarint(value >> 21)


def skip_tagged(data: Readable, position: int, count: int) -> int:
    """The position after a tagged section without known tags; `count` is its first byte, already read."""
    count, position = tagged_count(data, position, count)
    for _ in range(count):
        _, position, end = tagged_field(data, position)
        position = end
    return position


def tagged_count(data: Readable, position: int, first: int) -> tuple[int, int]:
    count = first
    if count > 0x7F:
        count, position = finish_uvarint(data, position, first)
    if count > limits.tagged_fields_max:
        raise MalformedMessage(f"too many tagged fields: {count}, the limit is {limits.tagged_fields_max}")
    return count, position


def tagged_field(data: Readable, position: int) -> tuple[int, int, int]:
    """The tag, and the start and end of its content."""
    tag, position = read_uvarint(data, position)
    size, position = read_uvarint(data, position)
    end = position + size
    if end > len(data):
        overrun()
    return tag, position, end


def tagged_section(fields: Sequence[tuple[int, bytes]]) -> bytes:
    parts = [uvarint(len(fields))]
    for tag, content in fields:
        parts += (uvarint(tag), uvarint(len(content)), content)
    return b"".join(parts)


def read_compact_string(data: memoryview, position: int) -> tuple[str, int]:
    length = data[position]
    position += 1
    if length > 127:
        length, position = finish_uvarint(data, position, length)
    if not length:
        not_nullable("a string")
    end = position + length - 1
    if end > len(data):
        overrun()
    return str(data[position:end], "utf-8"), end


def read_count(data: memoryview, position: int, left: int, smallest: int) -> tuple[int, int]:
    """The element count of a compact array: at most `left` elements, each with at least `smallest` bytes."""
    count = data[position]
    position += 1
    if count > 127:
        count, position = finish_uvarint(data, position, count)
    if not count:
        not_nullable("an array")
    if count > left or (count - 1) * smallest > len(data) - position:
        too_many()
    return count - 1, position


def overrun() -> NoReturn:
    raise MalformedMessage("a length points past the end of the message")


def too_many() -> NoReturn:
    raise MalformedMessage("an array claims more elements than the message can hold")


def not_nullable(what: str) -> NoReturn:
    raise MalformedMessage(f"{what} is null or has a negative length")
