"""Reads and checks a partition's files by the definition of the format, without the broker's code."""

from __future__ import annotations

import operator
import struct
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")


class Batch(NamedTuple):
    position: int
    length: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def audit_partition(directory: Path, *, compacted: bool = False) -> int:
    """Checks that all batches are complete and valid, offsets have no gap, and indexes are correct.

    Returns the log end offset.
    """
    next_offset = None
    follows = operator.ge if compacted else operator.eq
    for log in sorted(directory.glob("*.log")):
        batches = read_batches(log)
        base = int(log.stem)
        if next_offset is not None:
            assert follows(base, next_offset), f"{log}: hole before this segment"
        for batch in batches:
            known = next_offset is None or follows(batch.base_offset, next_offset)
            assert known, f"{log}: hole at {batch.base_offset}"
            next_offset = batch.last_offset + 1
        audit_offset_index(log.with_suffix(".index"), base, batches)
        audit_time_index(log.with_suffix(".timeindex"), base, batches)
    assert next_offset is not None, f"{directory} holds no records"
    return next_offset


def read_batches(log: Path) -> list[Batch]:
    data = log.read_bytes()
    batches = []
    position = 0
    while position < len(data):
        base, length, _epoch, magic, crc, _, last_delta, _, max_ts, *_ = HEADER.unpack_from(data, position)
        end = position + 12 + length
        assert magic == 2, f"{log}@{position}: magic {magic}"
        assert end <= len(data), f"{log}@{position}: torn batch after a clean stop"
        assert crc32c(data[position + 21 : end]) == crc, f"{log}@{position}: checksum"
        batches.append(Batch(position, 12 + length, base, base + last_delta, max_ts))
        position = end
    return batches


def audit_offset_index(index: Path, base: int, batches: list[Batch]) -> None:
    """An entry maps the last offset of a batch to that batch's position. Entries increase."""
    by_last_offset = {batch.last_offset: batch.position for batch in batches}
    data = index.read_bytes()
    assert len(data) % 8 == 0
    entries = [struct.unpack_from(">II", data, at) for at in range(0, len(data), 8)]
    assert entries == sorted(entries)
    for relative, position in entries:
        assert by_last_offset.get(base + relative) == position, f"{index}: {relative} -> {position}"
    total = sum(batch.length for batch in batches)
    assert entries or total < 64 * 1024, f"{index} is empty beside {total} bytes"


def audit_time_index(index: Path, base: int, batches: list[Batch]) -> None:
    """An entry means: up to this offset no record has a later timestamp."""
    data = index.read_bytes()
    assert len(data) % 12 == 0
    entries = [struct.unpack_from(">qI", data, at) for at in range(0, len(data), 12)]
    assert entries == sorted(entries)
    for timestamp, relative in entries:
        upto = [batch.max_timestamp for batch in batches if batch.last_offset <= base + relative]
        assert upto, f"{index}: {relative} is before the first batch"
        assert max(upto) == timestamp, f"{index}: {timestamp} at {relative}"
