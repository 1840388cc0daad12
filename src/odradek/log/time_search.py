"""Finding records by timestamp. The indexes lead to a batch, and its records are searched."""

from __future__ import annotations

from typing import NamedTuple

from odradek.log.scan import BatchSeen, headers
from odradek.log.segment import Segment
from odradek.log.segments import Segments
from odradek.protocol.batch import iter_records
from odradek.protocol.malformed import MalformedRecords


class TimestampedOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


def first_since(segments: Segments, timestamp: int, start_offset: int, end_offset: int) -> TimestampedOffset | None:
    """The first record in the offset range that is not older than `timestamp`."""
    for segment in segments.since(start_offset):
        if segment.max_time().timestamp < timestamp:
            continue
        for seen in headers(segment.file, segment.time_position(timestamp), segment.size):
            if seen.base_offset >= end_offset:
                return None
            if seen.max_timestamp >= timestamp and seen.last_offset >= start_offset:
                for found in _records(segment, seen):
                    if found.timestamp >= timestamp and start_offset <= found.offset < end_offset:
                        return found
    return None


def latest(segments: Segments, start_offset: int) -> TimestampedOffset | None:
    """The first record with the largest timestamp of all."""
    best = max(segments.since(start_offset), key=lambda segment: segment.max_time().timestamp)
    largest = best.max_time()
    seen = best.find(largest.offset)
    if largest.timestamp < 0 or seen is None:
        return None
    for found in _records(best, seen):
        if found.timestamp == largest.timestamp and found.offset >= start_offset:
            return found
    return TimestampedOffset(largest.timestamp, seen.last_offset, seen.leader_epoch)


def _records(segment: Segment, seen: BatchSeen) -> list[TimestampedOffset]:
    """A batch whose records cannot be read counts as one record, so that it does not make the search fail."""
    batch = segment.file.pread(seen.end_position - seen.position, seen.position)
    try:
        return [TimestampedOffset(record.timestamp, record.offset, seen.leader_epoch) for record in iter_records(batch)]
    except MalformedRecords:
        return [TimestampedOffset(seen.max_timestamp, seen.base_offset, seen.leader_epoch)]
