"""Converts librdkafka's messages into Arrow record batches.

The arrays are built from buffers: the first `pa.array()` of a process imports pandas, which takes a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from odradek.spark.arrow_schema import HEADER, HEADERS, TIMESTAMP, arrow_schema
from odradek.spark.errors import BadHeader
from odradek.spark.offsets import TopicPartition
from odradek.spark.positions import LAST, Positions

# Arrow counts the bytes of a column in an int32. A batch far below that limit also keeps the JVM's copy small.
BATCH_BYTES_MAX = 32 << 20
TIMESTAMP_MS_MAX = (1 << 63) // 1000 - 1

Numbers = np.ndarray[Any, Any]


def record_batches(
    place: TopicPartition,
    messages: Sequence[Message],
    *,
    include_headers: bool,
    positions: Positions | None = None,
) -> Iterator[pa.RecordBatch]:
    """All messages, in batches of about BATCH_BYTES_MAX at most."""
    if len(messages) > 1 and sum(map(len, messages)) > BATCH_BYTES_MAX:
        half = len(messages) // 2
        for part in (messages[:half], messages[half:]):
            yield from record_batches(place, part, include_headers=include_headers, positions=positions)
        return
    count = len(messages)
    stamps = list(map(Message.timestamp, messages))
    stamps_ms = np.fromiter(map(itemgetter(1), stamps), np.int64, count)
    offsets = np.fromiter(map(Message.offset, messages), np.int64, count)
    columns = [
        binary(list(map(Message.key, messages))),
        binary(list(map(Message.value, messages))),
        same_text(place.topic, count),
        fixed(pa.int32(), np.full(count, place.partition, np.int32)),
        fixed(pa.int64(), offsets),
        fixed(TIMESTAMP, micros(stamps_ms, place)),
        # timestamp type "not available" is 0 in librdkafka and -1 in Kafka
        fixed(pa.int32(), np.fromiter(map(itemgetter(0), stamps), np.int32, count) - np.int32(1)),
    ]
    if include_headers:
        columns.append(headers(_headers_of(messages, place)))
    if positions:
        columns.append(positions.column(stamps_ms, offsets))
    yield pa.RecordBatch.from_arrays(columns, schema=arrow_schema(include_headers, positions is not None))


def tick_row(topic: str, time_ms: int, *, include_headers: bool) -> pa.RecordBatch:
    """A row that carries the time and is not a record: partition and offset are -1, and it sorts after all records."""
    nowhere = np.full(1, -1, np.int32)
    columns = [
        binary([None]),
        binary([None]),
        same_text(topic, 1),
        fixed(pa.int32(), nowhere),
        fixed(pa.int64(), nowhere.astype(np.int64)),
        fixed(TIMESTAMP, micros(np.full(1, time_ms, np.int64), TopicPartition(topic, -1))),
        fixed(pa.int32(), nowhere),
    ]
    if include_headers:
        columns.append(headers([None]))
    columns.append(binary([LAST]))
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(include_headers, include_position=True))


def _headers_of(messages: Sequence[Message], place: TopicPartition) -> list[list[tuple[str, bytes | None]] | None]:
    found: list[list[tuple[str, bytes | None]] | None] = []
    try:
        # `map` is needed: CPython does not notice that the call failed when a loop in a warm function makes it.
        found.extend(map(Message.headers, messages))
    except SystemError as problem:  # librdkafka's Python client raises this for a UnicodeDecodeError
        raise BadHeader(
            f"{place} has at offset {messages[len(found)].offset()} a header whose name is not UTF-8, which the client "
            "cannot read; to read the record without its headers, leave out the option includeHeaders"
        ) from problem
    return found


def fixed(kind: pa.DataType, numbers: Numbers) -> pa.Array[Any]:
    return pa.Array.from_buffers(kind, len(numbers), [None, _buffer(numbers)])


def binary(values: list[bytes | None], kind: pa.DataType | None = None) -> pa.Array[Any]:
    missing = values.count(None)
    present: list[bytes] = [value or b"" for value in values] if missing else values  # type: ignore[assignment]
    return pa.Array.from_buffers(
        kind or pa.binary(),
        len(values),
        [
            validity([value is not None for value in values]) if missing else None,
            _buffer(_ends(np.fromiter(map(len, present), np.int32, len(present)))),
            pa.py_buffer(b"".join(present)),
        ],
        null_count=missing,
    )


def same_text(text: str, count: int) -> pa.Array[Any]:
    encoded = text.encode()
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), count, [None, _buffer(ends), pa.py_buffer(encoded * count)], null_count=0)


def headers(of_messages: list[list[tuple[str, bytes | None]] | None]) -> pa.Array[Any]:
    flat = [header for each in of_messages for header in each or ()]
    counts = np.fromiter((len(each or ()) for each in of_messages), np.int32, len(of_messages))
    return listed(binary([key.encode() for key, _ in flat], pa.string()), binary([value for _, value in flat]), counts)


def listed(keys: pa.Array[Any], values: pa.Array[Any], counts: Numbers) -> pa.Array[Any]:
    """Lists of headers with the given counts. A record without headers has null, as in Spark's connector."""
    pairs = pa.Array.from_buffers(HEADER, len(keys), [None], null_count=0, children=[keys, values])
    return pa.Array.from_buffers(HEADERS, len(counts), [validity(counts > 0), _buffer(_ends(counts))], children=[pairs])


def _buffer(numbers: Numbers) -> pa.Buffer:
    return pa.py_buffer(numbers.data)


def _ends(lengths: Numbers) -> Numbers:
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    return ends


def validity(present: list[bool] | Numbers) -> pa.Buffer:
    return _buffer(np.packbits(present, bitorder="little"))


def micros(stamps_ms: Numbers, place: TopicPartition) -> Numbers:
    if len(stamps_ms) and int(stamps_ms.max()) > TIMESTAMP_MS_MAX:
        raise OverflowError(f"{place} has a record with timestamp {stamps_ms.max()} ms, more than Spark can hold")
    return stamps_ms * np.int64(1000)
