"""The last record of each key in a part of a log: all that a coordinator needs when it loads.

Most records commit the same offsets again, each in a batch of its own. The key of such a batch is found without
decoding it: a segment has tens of thousands of them, and groups wait until it is loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from struct import Struct

from odradek.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    iter_records,
    read_header,
    unpacked,
)
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.record_spans import record_spans
from odradek.protocol.records import Record

log = logging.getLogger(__name__)

# Fields of a batch's header: base offset, length, magic, attributes, last offset delta, count of records.
_OUTLINE = Struct(">qi4xb4xhi30xi")
_NOT_PLAIN = CODEC_MASK | CONTROL
_SHORTEST, _SHORT = 8, 1 << 13  # record sizes in bytes; the length of a longer record takes three bytes
_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD


class LatestRecords:
    """Reads the whole batches of a log. An incomplete batch at the end is left out."""

    __slots__ = ("_batches", "_places", "_position", "ends")

    def __init__(self, batches: bytes) -> None:
        self._batches = batches
        self._position = 0
        # By key: where its batch begins, and its offset.
        self._places: dict[bytes | None, tuple[int, int]] = {}
        # The offset after each batch that was looked at.
        self.ends: list[int] = []

    def look(self, records: int) -> bool:
        """Looks at about `records` more records. False when there are no more."""
        batches, places, ends = self._batches, self._places, self.ends
        size, position = len(batches), self._position
        while records > 0 and size - position >= HEADER_BYTES:
            base_offset, length, magic, attributes, last_delta, count = _OUTLINE.unpack_from(batches, position)
            if magic != MAGIC or length < _LENGTH_MIN:
                read_header(batches, position)  # raises
            stop = position + LOG_OVERHEAD + length
            if stop > size:
                break
            key = None
            if count == 1 and not attributes & _NOT_PLAIN:
                key = _key_of_only_record(batches, position + HEADER_BYTES, stop)
            if key is not None:
                places[key] = position, base_offset
            elif not attributes & CONTROL:
                self._look_into(position, stop)
            ends.append(base_offset + last_delta + 1)
            records -= count or 1
            position = stop
        self._position = position
        return records <= 0

    def _look_into(self, position: int, stop: int) -> None:
        header = read_header(self._batches, position)
        try:
            data = unpacked(header, memoryview(self._batches)[position:stop])
            found = {
                span.key: (position, header.base_offset + span.offset_delta)
                for span in record_spans(data, header.records_count)
            }
        except MalformedRecords as unreadable:
            log.warning("batch at offset %d is skipped: %s", header.base_offset, unreadable)
        else:
            self._places.update(found)

    def __iter__(self) -> Iterator[Record]:
        """In the order of the log."""
        wanted: dict[int, dict[int, None]] = {}  # per batch, the offsets
        for position, offset in sorted(self._places.values()):
            wanted.setdefault(position, {})[offset] = None
        for position, offsets in wanted.items():
            stop = position + read_header(self._batches, position).size_bytes
            for record in iter_records(memoryview(self._batches)[position:stop]):
                if record.offset in offsets:
                    yield record


def _key_of_only_record(data: bytes, start: int, stop: int) -> bytes | None:
    """The key of a plain record that fills `start` to `stop`. None for others: the full decoder handles them."""
    if not _SHORTEST <= stop - start < _SHORT:
        return None
    # Lengths are written doubled, in one byte or two.
    length, body = data[start], start + 1
    if length > 127:
        length, body = length & 127 | data[body] << 7, start + 2
    # Attributes, timestamp delta and offset delta are all 0.
    if length != (stop - body) << 1 or data[body : body + 3] != b"\0\0\0":
        return None
    key = body + 4
    key_length = data[body + 3]
    value = key + (key_length >> 1)
    if key_length > 127 or key_length & 1 or value + 2 > stop:
        return None
    value_length, end = data[value], value + 1
    if value_length > 127:
        value_length, end = value_length & 127 | data[end] << 7, value + 2
    # No value is -1, written as 1. At least the count of headers follows.
    is_length = not value_length & 1 or value_length == 1
    return data[key:value] if is_length and end + (value_length >> 1) < stop else None
