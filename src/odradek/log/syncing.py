"""The syncs of one log, as the group commit and a clean stop run them."""

from __future__ import annotations

from odradek.base.errors import KafkaError
from odradek.log.content import Content
from odradek.log.durability import SyncWork
from odradek.log.rolling import Rolling


class Syncing:
    __slots__ = ("_content", "_rolling")

    def __init__(self, content: Content, rolling: Rolling) -> None:
        self._content = content
        self._rolling = rolling

    @property
    def in_flight(self) -> bool:
        return self._content.durability.in_flight

    def begin(self) -> SyncWork:
        """Begin a sync of everything appended so far. `run` it on any thread, then `finish`. One at a time."""
        return self._begin(self._content.log_end_offset)

    def begin_rolled(self) -> SyncWork:
        """Begin a sync of the sealed segments only, in the background after a roll."""
        return self._begin(self._content.segments.active.base_offset)

    def finish(self, work: SyncWork) -> None:
        content = self._content
        content.durability.finish(work)
        if work.error is not None:
            raise content.fail(work.error) from work.error
        if content.durability.checkpoint >= content.segments.active.base_offset:
            self._rolling.since_sync = False

    def whole(self) -> None:
        """Slow."""
        work = self.begin()
        work.run()
        self.finish(work)

    def is_due(self, wall_ms: int) -> bool:
        """Whether flush.ms has passed since the first call with something unsynced."""
        content = self._content
        return content.durability.is_due(content.log_end_offset, content.config.flush_ms, wall_ms)

    def _begin(self, end_offset: int) -> SyncWork:
        content = self._content
        content.refuse_if_offline()
        try:
            return content.durability.begin(content.segments, content.leader_epochs, end_offset)
        except (OSError, KafkaError) as broken:
            raise content.fail(broken) from broken
