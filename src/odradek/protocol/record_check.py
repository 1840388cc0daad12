"""Check that the records of a batch match its header, without decoding them.

Bounded like `records`: for any input the check ends, with MalformedRecords if it is invalid.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.base import limits
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.records import (
    SMALLEST_BYTES,
    VARINT_SHIFT_MAX,
    VARLONG_SHIFT_MAX,
    read_varint,
    skip_headers,
)

_NULL = 1  # the length -1


class Checked(NamedTuple):
    latest_delta: int  # the largest timestamp delta
    keyless: list[int]  # the first records without a key, at most `limits.record_errors_max`


def check_records(data: bytes, count: int) -> Checked:  # noqa: C901 - a call per number takes twice as long
    """Check all `count` records of a producer in `data`. Their offset deltas must be consecutive."""
    size = len(data)
    if not 0 < count * SMALLEST_BYTES <= size:
        raise MalformedRecords(f"{size} bytes cannot hold {count} records")
    end = 0
    latest = None
    keyless: list[int] = []
    headers_left = limits.checked_batch_headers_max
    try:
        for index in range(count):
            # Most numbers have one byte, and a function call would dominate the cost.
            length, position = data[end], end + 1
            if length > 127 or length & 1:
                length, position = read_varint(data, end, VARINT_SHIFT_MAX)
            else:
                length >>= 1
            end = position + length
            if end > size:
                raise MalformedRecords(f"a record of {length} bytes does not fit its batch")
            position += 1
            timestamp_delta = data[position]
            if timestamp_delta > 127 or timestamp_delta & 1:
                timestamp_delta, position = read_varint(data, position, VARLONG_SHIFT_MAX)
            else:
                timestamp_delta >>= 1
                position += 1
            if latest is None or timestamp_delta > latest:
                latest = timestamp_delta
            offset_delta, position = read_varint(data, position, VARINT_SHIFT_MAX)
            if offset_delta != index:
                raise MalformedRecords(f"record {index} has offset delta {offset_delta}")
            if data[position] == _NULL and len(keyless) < limits.record_errors_max:
                keyless.append(index)
            for _ in "kv":
                field_length = data[position]
                if field_length > 127 or field_length & 1:
                    field_length, position = read_varint(data, position, VARINT_SHIFT_MAX)
                    if field_length < -1:
                        raise MalformedRecords(f"invalid length {field_length}")
                    position += max(field_length, 0)
                else:
                    position += 1 + (field_length >> 1)
                if position >= end:
                    raise MalformedRecords("a key or value exceeds its record")
            if data[position]:
                header_count, position = read_varint(data, position, VARINT_SHIFT_MAX)
                headers_left -= header_count
                if headers_left < 0:
                    raise MalformedRecords(f"more than {limits.checked_batch_headers_max} headers")
                position = skip_headers(data, position, end, header_count)
            else:
                position += 1
            if position != end:
                raise MalformedRecords("the length of a record does not match its content")
    except IndexError as broken:
        raise MalformedRecords("a record is incomplete") from broken
    if end != size:
        raise MalformedRecords(f"{size - end} bytes follow the last record")
    return Checked(latest or 0, keyless)
