"""Retention: which segments expire, first those below the log start, then by size, then by age."""

from __future__ import annotations

import contextlib

from odradek.base.errors import KafkaError
from odradek.log import safeguards
from odradek.log.compacting import Compacting
from odradek.log.config import LogConfig
from odradek.log.content import Content
from odradek.log.deleted import DeletedSegment, Expired, forget
from odradek.log.folder import LOG, offset_name
from odradek.log.rolling import Rolling
from odradek.log.segment import Segment
from odradek.log.segments import Segments


class Retention:
    __slots__ = ("_compacting", "_content", "_rolling", "expired")

    def __init__(self, content: Content, rolling: Rolling, compacting: Compacting) -> None:
        self._content = content
        self._rolling = rolling
        self._compacting = compacting
        self.expired = Expired()

    def delete_expired(self, wall_ms: int, high_watermark: int) -> list[DeletedSegment]:
        """Remove expired segments from the log. `LogDirectory.retire` removes their files."""
        if self._compacting.is_swapping:
            return []  # try again later: a swap is renaming files
        content = self._content
        segments = content.segments
        with content.failing():
            count = expired_segments(
                segments,
                content.config,
                log_start=content.log_start_offset,
                log_end=content.log_end_offset,
                high_watermark=high_watermark,
                wall_ms=wall_ms,
            )
        if count == len(segments) and not self._has_rolled(wall_ms):
            count -= 1
        exposed = segments.since(content.recovery_point)
        taken = segments.take_first(count)
        for segment in taken:
            if segment in exposed:
                # A crash before the new log start is durable brings it back: unsynced, it would be a hole in the log.
                content.durability.also_sync(offset_name(segment.base_offset, LOG))
        content.advance_log_start(segments.in_order[0].base_offset)
        return self.expired.add([forget(content, segment) for segment in taken])

    def _has_rolled(self, wall_ms: int) -> bool:
        """Roll, if the disk allows it. On a full disk the other expired segments are removed without a roll."""
        content = self._content
        with contextlib.suppress(KafkaError), content.failing():
            content.refuse_if_offline()
            self._rolling.roll(wall_ms)
            return True
        return False


def expired_segments(
    segments: Segments, config: LogConfig, *, log_start: int, log_end: int, high_watermark: int, wall_ms: int
) -> int:
    """How many segments expire, counted from the first. All of them when even the active one has expired."""
    in_order = segments.in_order
    ends = [segment.base_offset for segment in in_order[1:]] + [log_end]
    committed = 0
    for end in ends:
        if safeguards.keeps_from_high_watermark(end, high_watermark):
            break
        committed += 1
    if in_order[-1].size == 0:
        committed = min(committed, len(in_order) - 1)

    count = 0
    while count < min(committed, len(in_order) - 1) and ends[count] <= log_start:
        count += 1
    if not config.deletes:
        return count
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in in_order[count:]) - config.retention_bytes
        while count < committed and excess >= in_order[count].size:
            excess -= in_order[count].size
            count += 1
    if config.retention_ms >= 0:
        while count < committed and _age_ms(in_order[count], wall_ms) > config.retention_ms:
            count += 1
    return count


def _age_ms(segment: Segment, wall_ms: int) -> int:
    """The age of the youngest record, or of the file when no record has a timestamp."""
    timestamp = segment.max_time().timestamp
    return wall_ms - (timestamp if timestamp >= 0 else segment.created_ms)
