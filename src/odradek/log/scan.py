"""Walking over the batches of a segment file, headers only or with their checksums verified."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from odradek.base.ports import File
from odradek.log import safeguards
from odradek.protocol.batch import (
    CHECKED_FROM,
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    Batch,
    has_valid_checksum,
    iter_batches,
    read_header,
)
from odradek.protocol.malformed import MalformedRecords

CHUNK_BYTES = 4096 + HEADER_BYTES
VERIFY_CHUNK_BYTES = 1 << 20
_SPAN = Struct(">qi4xb")  # base offset, length, (leader epoch), magic


class BatchSeen(NamedTuple):
    position: int
    end_position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


def batch_at(file: File, position: int, end: int) -> BatchSeen | None:
    """The batch that starts at `position` and ends at or before `end`, or None."""
    header = file.pread(HEADER_BYTES, position)
    seen = _seen(header, 0, position) if len(header) == HEADER_BYTES else None
    return None if seen is None or seen.end_position > end else seen


def end_within(file: File, start: int, end: int, max_bytes: int) -> tuple[int, int | None]:
    """The end position of the last batch within `max_bytes` of `start`, and the base offset of the next batch.

    Every limited fetch calls this, so it reads only the header fields that it needs.
    """
    limit = start + max_bytes
    position, chunk_start, chunk = start, start, b""
    while position + HEADER_BYTES <= end:
        at = position - chunk_start
        if at + _SPAN.size > len(chunk):
            chunk_start, at, chunk = position, 0, file.pread(min(CHUNK_BYTES, end - position), position)
            if len(chunk) < _SPAN.size:
                break
        base, length, magic = _SPAN.unpack_from(chunk, at)
        after = position + LOG_OVERHEAD + length
        if magic != MAGIC or length < HEADER_BYTES - LOG_OVERHEAD or after > end:
            break
        if after > limit:
            return position, base
        position = after
    return position, None


def headers(file: File, start: int, end: int) -> Iterator[BatchSeen]:
    """The headers of the whole batches between two positions. Stops early at bytes that are not a batch."""
    position, chunk_start, chunk = start, start, b""
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk_start, chunk = position, file.pread(min(CHUNK_BYTES, end - position), position)
            if len(chunk) < HEADER_BYTES:
                return
        seen = _seen(chunk, position - chunk_start, position)
        if seen is None or seen.end_position > end:
            return
        yield seen
        position = seen.end_position


def verified(file: File, end: int) -> Iterator[BatchSeen]:
    """The whole batches from the start of the file. Stops at the first one that is invalid or has a wrong checksum."""
    position, chunk_start, chunk = 0, 0, b""
    while position + HEADER_BYTES <= end:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk_start, chunk, at = position, file.pread(VERIFY_CHUNK_BYTES, position), 0
            if len(chunk) < HEADER_BYTES:
                return
        seen = _seen(chunk, at, position)
        if seen is None or seen.end_position > end:
            return
        length = seen.end_position - position
        if at + length > len(chunk):
            chunk_start, chunk, at = position, file.pread(max(VERIFY_CHUNK_BYTES, length), position), 0
        covered = memoryview(chunk)[at + CHECKED_FROM : at + length]
        stored = CRC.unpack_from(chunk, at + CRC_POSITION)[0]
        if len(covered) != length - CHECKED_FROM or not safeguards.recovers_checksum(stored, covered):
            return
        yield seen
        position = seen.end_position


def batches(file: File, start: int, end: int) -> Iterator[Batch]:
    """The batches between two positions. Raises MalformedRecords when one is incomplete or has a wrong checksum."""
    position, wanted = start, VERIFY_CHUNK_BYTES
    while position < end:
        chunk = file.pread(min(wanted, end - position), position)
        before = position
        for header, data in iter_batches(chunk):
            if not has_valid_checksum(data):
                raise MalformedRecords(f"{file.path}: the batch at position {position} does not match its checksum")
            yield Batch(header, data)
            position += header.size_bytes
        if position == before:
            wanted = read_header(chunk).size_bytes
            if wanted <= len(chunk) or wanted > end - position:
                raise MalformedRecords(f"{file.path}: the batch at position {position} is incomplete")
        else:
            wanted = VERIFY_CHUNK_BYTES


def _seen(chunk: bytes, at: int, position: int) -> BatchSeen | None:
    base, length, epoch, magic, _, attributes, delta, _, max_time, pid, pid_epoch, sequence, _ = HEADER.unpack_from(
        chunk, at
    )
    if magic != MAGIC or length < HEADER_BYTES - LOG_OVERHEAD or base < 0 or delta < 0:
        return None
    end = position + length + LOG_OVERHEAD
    return BatchSeen(position, end, base, base + delta, epoch, attributes, max_time, pid, pid_epoch, sequence)
