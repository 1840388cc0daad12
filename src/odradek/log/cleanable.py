"""How dirty a log is: what compaction has not processed yet, what it may clean now, and whether a run is due."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from odradek.log import safeguards
from odradek.log.cleaning import SegmentToClean
from odradek.log.config import INT64_MAX, LogConfig
from odradek.log.scan import headers
from odradek.log.segment import Segment
from odradek.log.segments import Segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Dirt:
    segments: tuple[Segment, ...]  # that may be cleaned, from the first one on
    dirty_from: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool  # max.compaction.lag.ms has passed

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        return self.dirty_bytes > 0 and (self.overdue or self.ratio > config.min_cleanable_dirty_ratio)


def dirt(
    segments: Segments,
    config: LogConfig,
    *,
    dirty_from: int,
    last_stable_offset: int,
    durable_to: int,
    wall_ms: int,
) -> Dirt:
    """Which segments may be cleaned: never the active one, and only committed and durable segments.

    They must be durable because compaction leaves gaps between segments. Recovery takes such a gap for data loss,
    except below the recovery point on disk.
    """
    in_order = segments.in_order
    cleanable: list[Segment] = []
    dirty_bytes = 0
    for segment, following in pairwise(in_order):
        end = following.base_offset
        if end > durable_to or not safeguards.is_cleanable(end, last_stable_offset):
            break
        if end > dirty_from:
            if config.min_compaction_lag_ms > 0 and _is_young(segment, wall_ms - config.min_compaction_lag_ms):
                break
            dirty_bytes += segment.size
        cleanable.append(segment)
    return Dirt(
        segments=tuple(cleanable),
        dirty_from=dirty_from,
        clean_bytes=sum(segment.size for segment in cleanable) - dirty_bytes,
        dirty_bytes=dirty_bytes,
        overdue=config.max_compaction_lag_ms < INT64_MAX
        and _earliest_dirty(in_order, dirty_from) < wall_ms - config.max_compaction_lag_ms,
    )


def segments_to_clean(dirt: Dirt, segments: Segments) -> tuple[SegmentToClean, ...]:
    ends = [segment.base_offset for segment in segments.in_order[1:]]
    return tuple(
        SegmentToClean(base_offset=segment.base_offset, end_offset=end, size=segment.size)
        for segment, end in zip(dirt.segments, ends, strict=False)
    )


def _is_young(segment: Segment, since_ms: int) -> bool:
    return segment.max_time().timestamp > since_ms


def _earliest_dirty(in_order: list[Segment], dirty_from: int) -> int:
    """The smallest timestamp of a dirty segment's first batch. A roll by age looks at the first batch, too."""
    earliest = INT64_MAX
    for segment, following in pairwise(in_order):
        first = next(headers(segment.file, 0, segment.size), None) if following.base_offset > dirty_from else None
        if first is not None and first.max_timestamp > 0:
            earliest = min(earliest, first.max_timestamp)
    return earliest
