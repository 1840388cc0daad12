"""Divides the records of a write into batches that the topic accepts (`max.message.bytes`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.protocol.batch import HEADER_BYTES
from odradek.protocol.records import Record

# Lengths, offset delta and count of headers, each as long as it may be.
_RECORD_BYTES_MAX = 32


def fitting(records: Iterable[Record], batch_bytes_max: int) -> Iterator[list[Record]]:
    """A record that is too large by itself gets a batch of its own, which the log refuses."""
    batch: list[Record] = []
    size = HEADER_BYTES
    for record in records:
        record_bytes = _RECORD_BYTES_MAX + len(record.key or b"") + len(record.value or b"")
        if batch and size + record_bytes > batch_bytes_max:
            yield batch
            batch, size = [], HEADER_BYTES
        batch.append(record)
        size += record_bytes
    if batch:
        yield batch
