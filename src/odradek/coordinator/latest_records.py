"""What a coordinator must replay of a part of its log, when it loads.

Of plain records only the last of each key counts, and tombstones. Most records commit the same offsets again, each in
a batch of its own. The key of such a batch is found without decoding it: a segment has tens of thousands of them, and
groups wait until it is loaded. Records of transactions, and the markers that end them, are all replayed in log order:
a record may stay pending for long, and which one counts in the end is decided by its marker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from odradek.base.ids import NO_PRODUCER, Offset, ProducerId
from odradek.protocol.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    iter_records,
    read_header,
    unpacked,
)
from odradek.protocol.control_records import ControlType, decode_control_key
from odradek.protocol.malformed import MalformedMessage, MalformedRecords
from odradek.protocol.record_spans import record_spans
from odradek.protocol.records import Record

log = logging.getLogger(__name__)

# Fields of a batch's header: base offset, length, magic, attributes, last offset delta, count of records.
_OUTLINE = Struct(">qi4xb4xhi30xi")
_NOT_PLAIN = CODEC_MASK | CONTROL | TRANSACTIONAL
_SHORTEST, _SHORT = 8, 1 << 13  # record sizes in bytes; the length of a longer record takes three bytes
_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD


class StoredRecord(NamedTuple):
    record: Record
    # NO_PRODUCER unless it belongs to a transaction.
    producer_id: ProducerId


class StoredMarker(NamedTuple):
    producer_id: ProducerId
    committed: bool
    offset: Offset


class LatestRecords:
    """Reads the whole batches of a log. An incomplete batch at the end is left out."""

    __slots__ = ("_all_of", "_batches", "_latest", "_position", "_tombstones", "ends")

    def __init__(self, batches: bytes) -> None:
        self._batches = batches
        self._position = 0
        # By key, for plain records with a value: where its batch begins, and its offset.
        self._latest: dict[bytes | None, tuple[int, int]] = {}
        # Plain records without a value. They are never left out: they also remove what is pending.
        self._tombstones: list[tuple[int, int]] = []
        # Where the batches of transactions begin, control batches included.
        self._all_of: list[int] = []
        # The offset after each batch that was looked at.
        self.ends: list[int] = []

    def look(self, records: int) -> bool:
        """Looks at about `records` more records. False when there are no more."""
        batches, ends = self._batches, self.ends
        size, position = len(batches), self._position
        while records > 0 and size - position >= HEADER_BYTES:
            base_offset, length, magic, attributes, last_delta, count = _OUTLINE.unpack_from(batches, position)
            if magic != MAGIC or length < _LENGTH_MIN:
                read_header(batches, position)  # raises
            stop = position + LOG_OVERHEAD + length
            if stop > size:
                break
            found = None
            if count == 1 and not attributes & _NOT_PLAIN:
                found = _only_record(batches, position + HEADER_BYTES, stop)
            if found is not None:
                self._note(*found, position, base_offset)
            else:
                self._look_into(position, stop)
            ends.append(base_offset + last_delta + 1)
            records -= count or 1
            position = stop
        self._position = position
        return records <= 0

    def _note(self, key: bytes | None, is_tombstone: bool, position: int, offset: int) -> None:
        if is_tombstone:
            self._latest.pop(key, None)
            self._tombstones.append((position, offset))
        else:
            self._latest[key] = position, offset

    def _look_into(self, position: int, stop: int) -> None:
        header = read_header(self._batches, position)
        if header.is_control or header.is_transactional:
            self._all_of.append(position)
            return
        try:
            data = unpacked(header, memoryview(self._batches)[position:stop])
            spans = list(record_spans(data, header.records_count))
        except MalformedRecords as unreadable:
            log.warning("batch at offset %d is skipped: %s", header.base_offset, unreadable)
            return
        for span in spans:
            self._note(span.key, not span.has_value, position, header.base_offset + span.offset_delta)

    def __iter__(self) -> Iterator[StoredRecord | StoredMarker]:
        """In the order of the log."""
        wanted: dict[int, dict[int, None]] = {position: {} for position in self._all_of}  # per batch, the offsets
        for position, offset in (*self._latest.values(), *self._tombstones):
            wanted.setdefault(position, {})[offset] = None
        for position, offsets in sorted(wanted.items()):
            header = read_header(self._batches, position)
            batch = memoryview(self._batches)[position : position + header.size_bytes]
            if offsets:
                for record in iter_records(batch):
                    if record.offset in offsets:
                        yield StoredRecord(record, NO_PRODUCER)
            else:
                yield from _of_transaction(header, batch)


def _of_transaction(header: BatchHeader, batch: memoryview) -> Iterator[StoredRecord | StoredMarker]:
    producer_id = ProducerId(header.producer_id)
    try:
        records = list(iter_records(batch))
        if not header.is_control:
            yield from (StoredRecord(record, producer_id) for record in records)
            return
        for record in records:
            kind = decode_control_key(record.key or b"")
            if kind in (ControlType.COMMIT, ControlType.ABORT):
                yield StoredMarker(producer_id, kind == ControlType.COMMIT, Offset(record.offset))
    except (MalformedRecords, MalformedMessage) as unreadable:
        log.warning("batch at offset %d is skipped: %s", header.base_offset, unreadable)


def _only_record(data: bytes, start: int, stop: int) -> tuple[bytes, bool] | None:
    """The key of a plain record that fills `start` to `stop`, and whether it is a tombstone.

    None for other records: the full decoder handles them.
    """
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
    return (data[key:value], value_length == 1) if is_length and end + (value_length >> 1) < stop else None
