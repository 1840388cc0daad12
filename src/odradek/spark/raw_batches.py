"""Decodes record batches, as brokers store them, into Arrow without an object per record.

One short loop finds where records end. Everything else, varints included, is computed for all records at once. The
bytes are untrusted: every position is checked against its record before Arrow uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from odradek.protocol.batch import HEADER_BYTES, Batch, BatchHeader
from odradek.protocol.compression import Codec, decompress
from odradek.protocol.malformed import MalformedRecords
from odradek.spark.arrow_batches import Numbers, fixed, micros, same_text
from odradek.spark.arrow_schema import TIMESTAMP, arrow_schema
from odradek.spark.planning import OffsetRange
from odradek.spark.positions import Positions
from odradek.spark.raw_headers import headers
from odradek.spark.raw_segments import pairs, varints

# Bytes decoded in one call. A call costs as much as hundreds of records, and batches grow when they are decompressed.
DECODE_BYTES = 2 << 20
# Arrow counts the bytes of a column in an int32, and the name of a topic has up to 249 bytes.
ROWS_MAX = 1 << 23
LENGTH_BYTES_MAX = 5


def decoded(
    batches: Iterable[Batch], wanted: OffsetRange, *, include_headers: bool, positions: Positions | None = None
) -> Iterator[tuple[pa.RecordBatch | None, int]]:
    """Pairs: the records in the range (None if there are none), and the offset up to which batches are decoded."""
    heads: list[BatchHeader] = []
    bodies: list[memoryview] = []
    size = 0
    for header, data in batches:
        body = _unpacked(header, data)
        heads.append(header)
        bodies.append(body)
        size += len(body)
        if size >= DECODE_BYTES:
            yield _together(heads, bodies, wanted, include_headers, positions), header.next_offset
            heads, bodies, size = [], [], 0
    if heads:
        yield _together(heads, bodies, wanted, include_headers, positions), heads[-1].next_offset


def _together(
    heads: list[BatchHeader],
    bodies: list[memoryview],
    wanted: OffsetRange,
    include_headers: bool,
    positions: Positions | None,
) -> pa.RecordBatch | None:
    data = b"".join(bodies)
    counts = [head.records_count for head in heads]
    edges = np.fromiter(_record_edges(data), np.int64)
    found = len(edges) - 1
    if min(counts) < 0 or found != sum(counts):
        raise MalformedRecords(f"the batch headers announce {sum(counts)} records, but there are {found}")
    if (edges[np.cumsum(counts)] != np.cumsum([len(body) for body in bodies])).any():
        raise MalformedRecords("a record does not end with its batch")
    if found > ROWS_MAX:
        raise MalformedRecords(f"{found} records are too many for one Arrow batch")
    return _Records(data, edges, heads, counts).within(wanted, include_headers, positions) if found else None


class _Records:
    """Columns of numbers over `data`: offsets, times, and where each key and value lies."""

    def __init__(self, data: bytes, edges: Numbers, heads: Sequence[BatchHeader], counts: Sequence[int]) -> None:
        self._data = data
        octets = np.frombuffer(data, np.uint8)
        starts, self._ends = edges[:-1], edges[1:]
        _, body = varints(octets, starts)
        time_deltas, at = varints(octets, body + 1)  # after one byte of attributes
        offset_deltas, at = varints(octets, at)
        key_sizes, self._key_starts = varints(octets, at)
        self._key_ends = self._key_starts + np.clip(key_sizes, 0, len(data))
        value_sizes, self._value_starts = varints(octets, self._key_ends)
        self._value_ends = self._value_starts + np.clip(value_sizes, 0, len(data))
        # Each place follows from the one before, so checking the last place checks all of them.
        if (self._value_ends > self._ends).any():
            raise MalformedRecords("a record is shorter than what it holds")
        self._has_key, self._has_value = key_sizes >= 0, value_sizes >= 0

        appended = [each.uses_append_time for each in heads]
        base_times = [each.max_timestamp if each.uses_append_time else each.base_timestamp for each in heads]
        if any(appended):
            time_deltas = np.where(np.repeat(appended, counts), 0, time_deltas)
        self._times = np.repeat(np.array(base_times, np.int64), counts) + time_deltas
        self._time_types = np.repeat(np.array(appended, np.int32), counts)
        self._offsets = np.repeat(np.array([each.base_offset for each in heads], np.int64), counts) + offset_deltas
        if (self._offsets[1:] <= self._offsets[:-1]).any():
            raise MalformedRecords("offsets do not rise")

    def within(self, wanted: OffsetRange, include_headers: bool, positions: Positions | None) -> pa.RecordBatch | None:
        first, last = np.searchsorted(self._offsets, (wanted.start, wanted.end))
        count = int(last - first)
        if count <= 0:
            return None
        cut = slice(first, last)
        edges = np.empty((count, 4), np.int32)
        for column, places in enumerate((self._key_starts, self._key_ends, self._value_starts, self._value_ends)):
            edges[:, column] = places[cut]
        columns = [
            *pairs(self._data, edges, self._has_key[cut], self._has_value[cut]),
            same_text(wanted.topic, count),
            fixed(pa.int32(), np.full(count, wanted.partition, np.int32)),
            fixed(pa.int64(), self._offsets[cut]),
            fixed(TIMESTAMP, micros(self._times[cut], wanted.place)),
            fixed(pa.int32(), self._time_types[cut]),
        ]
        if include_headers:
            columns.append(headers(self._data, self._value_ends[cut], self._ends[cut]))
        if positions:  # last, because librdkafka reads records again that an error above refuses
            columns.append(positions.column(self._times[cut], self._offsets[cut]))
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(include_headers, positions is not None))


def _unpacked(header: BatchHeader, data: memoryview) -> memoryview:
    body = data[HEADER_BYTES:]
    return body if header.codec == Codec.NONE else decompress(header.codec, body)


def _record_edges(data: bytes) -> list[int]:
    """0 and the end of each record. Each record begins with its length, so the ends are found one after the other."""
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
