"""Compaction as the log sees it: what is dirty, the plan of a run, and putting the result in place."""

from __future__ import annotations

from collections.abc import Callable

from odradek.log import safeguards
from odradek.log.cleanable import Dirt, dirt, segments_to_clean
from odradek.log.cleaning import CleaningPlan, Replacement
from odradek.log.content import Content
from odradek.log.deleted import DeletedSegment
from odradek.log.segment import Segment
from odradek.log.swap import Swap


class Compacting:
    __slots__ = ("_content", "_forget", "_swap", "unreadable")

    def __init__(self, content: Content, forget: Callable[[Segment], DeletedSegment]) -> None:
        self._content = content
        self._forget = forget
        self._swap: Swap | None = None
        self.unreadable: str | None = None  # why compaction skips this log

    @property
    def is_swapping(self) -> bool:
        return self._swap is not None

    def dirt(self, last_stable_offset: int, wall_ms: int) -> Dirt:
        """What compaction could clean now."""
        content = self._content
        durable_to = content.recovery_point
        everything = durable_to >= content.log_end_offset
        decided_before = durable_to if everything else content.producers.decided_before(durable_to)
        return dirt(
            content.segments,
            content.config,
            dirty_from=max(content.cleaned_until or 0, content.log_start_offset),
            last_stable_offset=safeguards.cleans_what_is_decided_on_disk(decided_before, last_stable_offset),
            durable_to=content.durability.checkpoint,
            wall_ms=wall_ms,
        )

    def plan(self, dirt: Dirt, high_watermark: int, wall_ms: int, key_bytes_max: int) -> CleaningPlan:
        """The input of `cleaning.clean`, with the current segments."""
        content, config = self._content, self._content.config
        return CleaningPlan(
            directory=content.folder.path,
            history=content.durability.history,
            segments=segments_to_clean(dirt, content.segments),
            dirty_from=dirt.dirty_from,
            high_watermark=high_watermark,
            wall_ms=wall_ms,
            delete_retention_ms=config.delete_retention_ms,
            aborted_from=tuple(segment.base_offset for segment in content.segments.in_order if segment.aborted.exists),
            last_batches=content.known_producers(wall_ms).last_batches(high_watermark),
            epoch_starts=frozenset(start for epoch, start in content.leader_epochs.entries() if epoch),
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            key_bytes_max=key_bytes_max,
        )

    def begin_swap(self, plan: CleaningPlan, replacement: Replacement) -> Swap | None:
        """The caller runs its steps, or other code that changes file names does. None when the plan is out of date."""
        content = self._content
        here = [segment.base_offset for segment in content.segments.in_order[:-1]]
        if not self.is_as_planned(plan) or not all(base in here for base in replacement.old):
            return None
        self._swap = Swap(
            content.folder, content.segments, replacement, interval=plan.index_interval_bytes, forget=self._forget
        )
        return self._swap

    def step_swap(self) -> bool:
        """Run the next step. False when it was the last. The caller syncs after each step."""
        if self._swap is None or self._content.failure is not None:
            return False
        with self._content.failing():
            if self._swap.step():
                return True
        self._swap = None
        return False

    def finish_swap(self) -> None:
        """Slow. Run the remaining steps before other code changes file names. The code that runs the swap ends it."""
        if self._swap is not None:
            self._swap.sync()
            while self._swap.step():
                self._swap.sync()

    def is_as_planned(self, plan: CleaningPlan) -> bool:
        """True when the log has neither failed nor been truncated since. Retention may have removed segments."""
        return self._content.failure is None and plan.history == self._content.durability.history

    def cleaned(self, plan: CleaningPlan, end_offset: int) -> None:
        """Every replacement of this run is durably in place."""
        content = self._content
        if plan.history == content.durability.history:
            content.cleaned_until = max(content.cleaned_until or 0, end_offset)
