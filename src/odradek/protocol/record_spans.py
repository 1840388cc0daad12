"""The positions of the records in a batch, without decoding them: compaction copies the records it keeps unchanged.

Bounded like `records`: for any input the search ends, with MalformedRecords if it is invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.records import (
    LONG_MAX,
    LONG_MIN,
    SMALLEST_BYTES,
    VARINT_SHIFT_MAX,
    VARLONG_SHIFT_MAX,
    put_varint,
    read_varint,
)


class RecordSpan(NamedTuple):
    start: int  # position of its length
    body: int  # position of its attributes
    after_time: int  # position of its offset delta: nothing from here on depends on the batch's timestamps
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


_new = tuple.__new__  # the constructor of a NamedTuple takes three times as long


def record_spans(data: bytes, count: int) -> Iterator[RecordSpan]:  # noqa: C901 - a call per number takes twice as long
    """The `count` records in `data`."""
    size = len(data)
    if not 0 <= count * SMALLEST_BYTES <= size:
        raise MalformedRecords(f"{size} bytes cannot hold {count} records")
    position = 0
    try:
        for _ in range(count):
            start = position
            # Most numbers have one byte, and a function call would dominate the cost.
            length, body = data[position], position + 1
            if length > 127 or length & 1:
                length, body = read_varint(data, position, VARINT_SHIFT_MAX)
            else:
                length >>= 1
            end = body + length
            if end > size:
                raise MalformedRecords(f"a record of {length} bytes does not fit its batch")
            timestamp_delta, after_time = data[body + 1], body + 2
            if timestamp_delta > 127 or timestamp_delta & 1:
                timestamp_delta, after_time = read_varint(data, body + 1, VARLONG_SHIFT_MAX)
            else:
                timestamp_delta >>= 1
            offset_delta, position = data[after_time], after_time + 1
            if offset_delta > 127 or offset_delta & 1:
                offset_delta, position = read_varint(data, after_time, VARINT_SHIFT_MAX)
            else:
                offset_delta >>= 1
            key_length = data[position]
            key = None
            if key_length > 127 or key_length & 1:
                key_length, position = read_varint(data, position, VARINT_SHIFT_MAX)
            else:
                key_length >>= 1
                position += 1
            if key_length >= 0:
                key = data[position : position + key_length]
                position += key_length
            value_length = data[position]
            if value_length > 127 or value_length & 1:
                value_length, position = read_varint(data, position, VARINT_SHIFT_MAX)
            else:
                value_length >>= 1
                position += 1
            if key_length < -1 or value_length < -1 or position + max(0, value_length) >= end:
                raise MalformedRecords("a key or value exceeds its record")
            yield _new(
                RecordSpan, (start, body, after_time, end, timestamp_delta, offset_delta, key, value_length >= 0)
            )
            position = end
    except IndexError as broken:
        raise MalformedRecords("a record is incomplete") from broken
    if position != size:
        raise MalformedRecords(f"{size - position} bytes follow the last record")


def copy_records(data: bytes, spans: Sequence[RecordSpan], time_shift: int) -> bytearray:
    """The records of `spans` for a batch whose base timestamp is earlier by `time_shift`."""
    output = bytearray()
    for span in spans:
        if time_shift == 0:
            output += data[span.start : span.end]
            continue
        timestamp_delta = bytearray()
        put_varint(timestamp_delta, min(max(span.timestamp_delta + time_shift, LONG_MIN), LONG_MAX))
        put_varint(output, 1 + len(timestamp_delta) + span.end - span.after_time)
        output.append(data[span.body])
        output += timestamp_delta
        output += data[span.after_time : span.end]
    return output
