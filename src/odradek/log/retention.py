"""Which segments expire: first those below the log start, then by size, then by age."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from odradek.log import safeguards
from odradek.log.config import LogConfig
from odradek.log.folder import DELETED, Folder
from odradek.log.segment import Segment
from odradek.log.segments import Segments


@dataclass(eq=False, slots=True, kw_only=True)
class DeletedSegment:
    """Removed from the log, still on disk. Call `rename`, then after `file.delete.delay.ms` `remove`. Both are slow.

    Call them only after the log start offset that excludes it is durable. Otherwise a crash could leave a gap in the
    log. A log that restarts empty renames it earlier, because it needs the names, maybe while another thread renames.
    """

    folder: Folder
    segment: Segment
    names: tuple[str, ...]
    renamed: bool = False
    _renaming: threading.Lock = field(default_factory=threading.Lock)

    def rename(self) -> None:
        with self._renaming:
            if not self.renamed:
                for name in self.names:
                    with contextlib.suppress(FileNotFoundError):  # the whole topic was deleted meanwhile
                        self.folder.rename(name, name + DELETED)
                self.renamed = True

    def remove(self) -> None:
        self.segment.close()
        for name in self.names:
            with contextlib.suppress(FileNotFoundError):
                self.folder.remove(name + DELETED)


class Expired:
    """The segments that one log removed and whose files may not be renamed yet."""

    __slots__ = ("_in_order",)

    def __init__(self) -> None:
        self._in_order: list[DeletedSegment] = []

    @property
    def on_disk(self) -> list[DeletedSegment]:
        return [deleted for deleted in self._in_order if not deleted.renamed]

    def add(self, deleted: list[DeletedSegment]) -> list[DeletedSegment]:
        self._in_order = [*self.on_disk, *deleted]
        return deleted

    def rename(self) -> None:
        """The log restarts empty: it needs the names, and recovery must not find these files as later segments."""
        for deleted in reversed(self.on_disk):
            deleted.rename()
        self._in_order = []


def remove(deleted: Sequence[DeletedSegment]) -> None:
    """Slow."""
    for segment in deleted:
        segment.remove()


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
