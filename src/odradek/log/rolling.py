"""Rolling: the active segment is sealed, and a new one takes the next batches."""

from __future__ import annotations

from collections.abc import Callable

from odradek.log import validation
from odradek.log.content import Content
from odradek.log.folder import LOG, offset_name
from odradek.log.segment import RELATIVE_OFFSET_MAX, UNARMED, Segment


class Rolling:
    __slots__ = ("_content", "_jitter", "jitter_ms", "since_sync")

    def __init__(self, content: Content, jitter: Callable[[int], int]) -> None:
        self._content = content
        self._jitter = jitter  # returns a random number below its argument
        self.jitter_ms = self._draw_jitter()  # of the active segment
        self.since_sync = False  # a sealed segment waits for a sync in the background

    def make_room(self, size: int, last_offset: int, max_time: int, wall_ms: int) -> Segment:
        """The segment for the next batch: the active one if it has room after all, or a new one."""
        content = self._content
        validation.require_fits(content.name, size, content.config)
        with content.failing():
            segment = content.segments.active
            if segment.roll_bytes == UNARMED:
                segment.arm(content.config, self.jitter_ms)
            if segment.size and (
                segment.size + size > segment.roll_bytes
                or max_time > segment.roll_timestamp
                or wall_ms > segment.roll_wall_ms
                or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            ):
                self.roll(wall_ms)
        return content.segments.active

    def roll(self, wall_ms: int) -> None:
        content = self._content
        base_offset = content.segments.next_base(content.log_end_offset)
        if base_offset < content.recovery_point:
            # Otherwise recovery would trust the indexes of the segment that is sealed now.
            content.durability.recovery_point = base_offset
            content.persist_checkpoints()
        self.roll_at(base_offset, wall_ms)

    def roll_at(self, base_offset: int, wall_ms: int) -> None:
        """Write a producer snapshot first, so that a later recovery can begin at the new segment."""
        content = self._content
        sealed = content.segments.active
        content.producers.snapshot(base_offset)
        sealed.seal()
        for name in (offset_name(sealed.base_offset, LOG), *sealed.index_names()):
            # Also when all its batches are durable: the file was just trimmed, and its indexes just written.
            content.durability.also_sync(name)
        content.segments.add(Segment.create(content.folder, base_offset, content.config, wall_ms))
        self.jitter_ms = self._draw_jitter()
        content.segments.active.arm(content.config, self.jitter_ms)
        self.since_sync = True

    def _draw_jitter(self) -> int:
        bound = min(self._content.config.segment_jitter_ms, self._content.config.roll_ms)
        return self._jitter(bound) if bound > 0 else 0
