"""Varints, tagged sections and the refusals that compiled codecs share.

Readers take the bytes of one message and a position. Reading past the end raises IndexError, which the callers
(`Message.decode`, `decode_request_header`) turn into `MalformedMessage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from odradek.base import limits
from odradek.protocol.malformed import MalformedMessage

Readable = bytes | memoryview
UVARINT_SHIFT_MAX = 28  # a 32-bit value has at most five 7-bit groups


def read_uvarint(data: Readable, position: int) -> tuple[int, int]:
    first = data[position]
    if first < 0x80:
        return first, position + 1
    return finish_uvarint(data, position + 1, first)


def finish_uvarint(data: Readable, position: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte announced more."""
    value = first & 0x7F
    shift = 7
    while shift <= UVARINT_SHIFT_MAX:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
        shift += 7
    raise MalformedMessage("a varint is longer than 32 bits")


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = tuple(_uvarint(value) for value in range(256))


def uvarint(value: int) -> bytes:
    return _SMALL[value] if value < 256 else _uvarint(value)


def skip_tagged(data: Readable, position: int, count: int) -> int:
    """Past a tagged section of which no tag is known; `count` is its first byte, already read."""
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
        raise MalformedMessage(f"{count} tagged fields, the limit is {limits.tagged_fields_max}")
    return count, position


def tagged_field(data: Readable, position: int) -> tuple[int, int, int]:
    """Tag, where its content starts, where it ends."""
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


def overrun() -> NoReturn:
    raise MalformedMessage("a length points past the end of the message")


def too_many() -> NoReturn:
    raise MalformedMessage("an array claims more elements than the message can hold")


def not_nullable(what: str) -> NoReturn:
    raise MalformedMessage(f"{what} is null or has a negative length")
