"""Record batches as brokers store them, decoded into Arrow without an object per record.

One short loop finds where records end; everything else, varints included, is computed for all records at once. Bytes
come from outside: every position is checked against its record before Arrow is pointed at it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from odradek.protocol.batch import HEADER_BYTES, TRANSACTIONAL, Batch, BatchHeader, has_valid_checksum, iter_records
from odradek.protocol.compression import Codec, decompress
from odradek.protocol.control_records import ControlType, decode_control_key
from odradek.protocol.malformed import MalformedRecords
from odradek.spark.arrow_batches import Numbers, fixed, micros, same_text, validity
from odradek.spark.planning import OffsetRange
from odradek.spark.schema import TIMESTAMP, arrow_schema

Aborted = Iterable[tuple[int, int]]
"""Producer id and first offset of transactions that were aborted, as a fetch response lists them."""

# So much is decoded at a time: a call costs as much as hundreds of records, and batches grow when they are unpacked.
DECODE_BYTES = 2 << 20
# Arrow counts the bytes of a column in an int32, and the name of a topic has up to 249.
ROWS_MAX = 1 << 23
LENGTH_BYTES_MAX = 5
VARINT_BYTES_MAX = 10


def visible(batches: Iterable[Batch], aborted: Aborted) -> Iterator[Batch]:
    """Batches with records for readers: no control records, and nothing of an aborted transaction."""
    waiting = deque(sorted(aborted, key=lambda entry: entry[1]))
    aborting: set[int] = set()
    for batch in batches:
        header = batch.header
        while waiting and waiting[0][1] <= header.last_offset:
            aborting.add(waiting.popleft()[0])
        if header.is_control:
            if _is_abort_marker(batch):
                aborting.discard(header.producer_id)
        elif not (header.attributes & TRANSACTIONAL and header.producer_id in aborting):
            yield batch


def checked(batches: Iterable[Batch]) -> Iterator[Batch]:
    for batch in batches:
        if not has_valid_checksum(batch.data):
            raise MalformedRecords(f"the batch at offset {batch.header.base_offset} has a wrong checksum")
        yield batch


def decoded(batches: Iterable[Batch], wanted: OffsetRange) -> Iterator[tuple[pa.RecordBatch | None, int]]:
    """The records that lie in the range, if any, each time with the offset up to which the batches are decoded then."""
    headers: list[BatchHeader] = []
    bodies: list[memoryview] = []
    size = 0
    for header, data in batches:
        body = _unpacked(header, data)
        headers.append(header)
        bodies.append(body)
        size += len(body)
        if size >= DECODE_BYTES:
            yield _together(headers, bodies, wanted), header.next_offset
            headers, bodies, size = [], [], 0
    if headers:
        yield _together(headers, bodies, wanted), headers[-1].next_offset


def _together(headers: list[BatchHeader], bodies: list[memoryview], wanted: OffsetRange) -> pa.RecordBatch | None:
    data = b"".join(bodies)
    counts = [header.records_count for header in headers]
    edges = np.fromiter(_record_edges(data), np.int64)
    found = len(edges) - 1
    if min(counts) < 0 or found != sum(counts):
        raise MalformedRecords(f"{sum(counts)} records are announced, {found} are there")
    if (edges[np.cumsum(counts)] != np.cumsum([len(body) for body in bodies])).any():
        raise MalformedRecords("a record does not end with its batch")
    if found > ROWS_MAX:
        raise MalformedRecords(f"{found} records are too many for one Arrow batch")
    return _Records(data, edges, headers, counts).within(wanted) if found else None


class _Records:
    """Columns of numbers over `data`: offsets, times, and where each key and value lies."""

    def __init__(self, data: bytes, edges: Numbers, headers: Sequence[BatchHeader], counts: Sequence[int]) -> None:
        self._data = data
        octets = np.frombuffer(data, np.uint8)
        starts, ends = edges[:-1], edges[1:]
        _, body = _varints(octets, starts)
        time_deltas, at = _varints(octets, body + 1)  # behind one byte of attributes
        offset_deltas, at = _varints(octets, at)
        key_sizes, self._key_starts = _varints(octets, at)
        self._key_ends = self._key_starts + np.clip(key_sizes, 0, len(data))
        value_sizes, self._value_starts = _varints(octets, self._key_ends)
        self._value_ends = self._value_starts + np.clip(value_sizes, 0, len(data))
        # Each place follows from the one before, so the last one speaks for all of them.
        if (self._value_ends > ends).any():
            raise MalformedRecords("a record is shorter than what it holds")
        self._has_key, self._has_value = key_sizes >= 0, value_sizes >= 0

        appended = [each.uses_append_time for each in headers]
        base_times = [each.max_timestamp if each.uses_append_time else each.base_timestamp for each in headers]
        if any(appended):
            time_deltas = np.where(np.repeat(appended, counts), 0, time_deltas)
        self._times = np.repeat(np.array(base_times, np.int64), counts) + time_deltas
        self._time_types = np.repeat(np.array(appended, np.int32), counts)
        self._offsets = np.repeat(np.array([each.base_offset for each in headers], np.int64), counts) + offset_deltas
        if (self._offsets[1:] <= self._offsets[:-1]).any():
            raise MalformedRecords("offsets do not rise")

    def within(self, wanted: OffsetRange) -> pa.RecordBatch | None:
        first, last = np.searchsorted(self._offsets, (wanted.start, wanted.end))
        count = int(last - first)
        if count <= 0:
            return None
        cut = slice(first, last)
        # Every second segment is what lies between keys and values; taken are the others.
        edges = np.empty((count, 4), np.int32)
        for column, places in enumerate((self._key_starts, self._key_ends, self._value_starts, self._value_ends)):
            edges[:, column] = places[cut]
        segments = pa.Array.from_buffers(
            pa.binary(), 4 * count - 1, [None, pa.py_buffer(edges.data), pa.py_buffer(self._data)], null_count=0
        )
        columns = [
            segments.take(_every_fourth(0, self._has_key[cut])),
            segments.take(_every_fourth(2, self._has_value[cut])),
            same_text(wanted.topic, count),
            fixed(pa.int32(), np.full(count, wanted.partition, np.int32)),
            fixed(pa.int64(), self._offsets[cut]),
            fixed(TIMESTAMP, micros(self._times[cut], wanted.place)),
            fixed(pa.int32(), self._time_types[cut]),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(False))


def _every_fourth(begin: int, present: Numbers) -> pa.Array[Any]:
    count = len(present)
    places = np.arange(begin, 4 * count, 4, dtype=np.int32)
    nulls = None if present.all() else validity(present)
    return pa.Array.from_buffers(pa.int32(), count, [nulls, pa.py_buffer(places.data)])


def _unpacked(header: BatchHeader, data: memoryview) -> memoryview:
    body = data[HEADER_BYTES:]
    return body if header.codec == Codec.NONE else decompress(header.codec, body)


def _record_edges(data: bytes) -> list[int]:
    """0 and where each record ends: a record says how long it is, so this is one step after the other."""
    edges = [0]
    found, at, size = edges.append, 0, len(data)
    try:
        while at < size:
            low = data[at]
            if low < 128:
                at += 1 + (low >> 1)
            elif (high := data[at + 1]) < 128:
                at += 2 + ((low & 127 | high << 7) >> 1)
            else:
                at = _end_of_long(data, at)
            found(at)
    except IndexError as beyond:
        raise MalformedRecords("the last record is cut off") from beyond
    if at != size:
        raise MalformedRecords("the last record is cut off")
    return edges


def _end_of_long(data: bytes, at: int) -> int:
    length = shift = 0
    while data[at] >= 128:
        if shift >= 7 * (LENGTH_BYTES_MAX - 1):
            raise MalformedRecords("a length does not end")
        length |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return at + 1 + ((length | data[at] << shift) >> 1)


def _varints(octets: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
    """The zigzag varint at each place, and the place behind it. A place beyond the end reads the last byte."""
    read = octets.take(at, mode="clip")
    values = (read & 127).astype(np.int64)
    behind = at + 1
    more = read > 127
    shift = 7
    while more.any():
        if shift >= 7 * VARINT_BYTES_MAX:
            raise MalformedRecords("a number does not end")
        read = octets.take(behind, mode="clip")
        values |= np.where(more, (read & 127).astype(np.int64) << shift, 0)
        behind = behind + more
        more = more & (read > 127)
        shift += 7
    return (values.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(values & 1), behind


def _is_abort_marker(batch: Batch) -> bool:
    for record in iter_records(batch.data):
        return record.key is not None and decode_control_key(record.key) == ControlType.ABORT
    return False
