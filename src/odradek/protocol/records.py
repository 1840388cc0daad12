"""The records inside a batch. The broker decodes them rarely: time search, key check, its own internal topics.

    length · attributes · timestamp delta · offset delta · key · value · headers; numbers are zigzag varints

Decoding ends for any input: varints have at most 5 or 10 bytes, and each record at least `SMALLEST_BYTES`. Invalid
input raises MalformedRecords.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odradek.protocol.malformed import MalformedRecords

VARINT_SHIFT_MAX = 28
VARLONG_SHIFT_MAX = 63
SMALLEST_BYTES = 7
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_INT, _LONG = 2**32 - 1, 2**64 - 1


class Record(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = -1
    offset: int = 0


def decode_records(
    data: bytes, count: int, base_offset: int, last_offset_delta: int, base_timestamp: int, append_time: int | None
) -> Iterator[Record]:
    """The `count` records in `data`; `append_time` replaces their own timestamps."""
    if not 0 <= count * SMALLEST_BYTES <= len(data):
        raise MalformedRecords(f"{len(data)} bytes cannot hold {count} records")
    position = 0
    for _ in range(count):
        try:
            length, position = read_varint(data, position, VARINT_SHIFT_MAX)
            end = position + length
            if end > len(data):
                raise MalformedRecords(f"a record of {length} bytes does not fit its batch")
            timestamp_delta, stop = read_varint(data, position + 1, VARLONG_SHIFT_MAX)
            offset_delta, stop = read_varint(data, stop, VARINT_SHIFT_MAX)
            key, stop = _sized(data, stop, end)
            value, stop = _sized(data, stop, end)
            header_count, stop = read_varint(data, stop, VARINT_SHIFT_MAX)
            headers, stop = read_headers(data, stop, end, header_count) if header_count else ((), stop)
        except IndexError as broken:
            raise MalformedRecords("a record is incomplete") from broken
        if stop != end:
            raise MalformedRecords("the length of a record does not match its content")
        if not 0 <= offset_delta <= last_offset_delta:
            raise MalformedRecords(
                f"a record has offset delta {offset_delta}, the last one of the batch is {last_offset_delta}"
            )
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        yield Record(key, value, headers, timestamp, base_offset + offset_delta)
        position = end
    if position != len(data):
        raise MalformedRecords(f"{len(data) - position} bytes follow the last record")


def read_headers(data: bytes, position: int, end: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if not 0 <= count * 2 <= end - position:
        raise MalformedRecords(f"{end - position} bytes cannot hold {count} headers")
    headers = []
    for _ in range(count):
        name, position = _sized(data, position, end)
        if name is None:
            raise MalformedRecords("a header has no name")
        value, position = _sized(data, position, end)
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError as broken:
            raise MalformedRecords("a header's name is not UTF-8") from broken
    return tuple(headers), position


def skip_headers(data: bytes, position: int, end: int, count: int) -> int:
    """The end position of `count` headers. Creates no objects: a small compressed batch may have millions."""
    if not 0 <= count * 2 <= end - position:
        raise MalformedRecords(f"{end - position} bytes cannot hold {count} headers")
    for _ in range(count):
        for smallest in (0, -1):  # a name is required, the value may be null
            length = data[position]
            if length > 127 or length & 1:
                length, position = read_varint(data, position, VARINT_SHIFT_MAX)
                if length < smallest:
                    raise MalformedRecords(f"a header has invalid length {length}")
                position += max(length, 0)
            else:
                position += 1 + (length >> 1)
            if position > end:
                raise MalformedRecords("a header exceeds its record")
    return position


def _sized(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length = data[position]
    position += 1
    if length > 127:
        length, position = read_varint(data, position - 1, VARINT_SHIFT_MAX)
    else:
        length = (length >> 1) ^ -(length & 1)
    if length < 0:
        if length == -1:
            return None, position
        raise MalformedRecords(f"invalid length {length}")
    stop = position + length
    if stop > end:
        raise MalformedRecords("a key, value or header exceeds its record")
    return data[position:stop], stop


def read_varint(data: bytes, position: int, shift_max: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    value = byte & 0x7F
    shift = 7
    while byte > 127:
        if shift > shift_max:
            raise MalformedRecords("a varint is too long")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if shift > shift_max:
        value &= _INT if shift_max == VARINT_SHIFT_MAX else _LONG  # higher bits are lost, as in Java
    return (value >> 1) ^ -(value & 1), position


def encode_records(records: Sequence[Record], base_timestamp: int) -> bytearray:
    output = bytearray()
    for offset_delta, record in enumerate(records):
        body = bytearray(1)  # attributes, unused
        put_varint(body, record.timestamp - base_timestamp)
        put_varint(body, offset_delta)
        _put_sized(body, record.key)
        _put_sized(body, record.value)
        put_varint(body, len(record.headers))
        for name, value in record.headers:
            _put_sized(body, name.encode())
            _put_sized(body, value)
        put_varint(output, len(body))
        output += body
    return output


def _put_sized(output: bytearray, data: bytes | None) -> None:
    if data is None:
        output.append(1)  # -1
    else:
        put_varint(output, len(data))
        output += data


def put_varint(output: bytearray, value: int) -> None:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    while value > 127:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)
