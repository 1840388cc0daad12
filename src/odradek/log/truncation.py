"""Truncation: removing records from the end of a log, or all of them."""

from __future__ import annotations

from odradek.log import safeguards, validation
from odradek.log.compacting import Compacting
from odradek.log.content import Content
from odradek.log.deleted import Expired
from odradek.log.segment import Segment


class Truncation:
    __slots__ = ("_compacting", "_content", "_expired")

    def __init__(self, content: Content, compacting: Compacting, expired: Expired) -> None:
        self._content = content
        self._compacting = compacting
        self._expired = expired

    def to(self, offset: int) -> None:
        """Slow. Remove everything from `offset` on, including the whole batch that holds it."""
        self._content.refuse_if_offline()
        with self._content.failing():
            self._compacting.finish_swap()
            self._to(offset)

    def fully_and_start_at(self, offset: int) -> None:
        """Slow. Remove everything. The next record gets `offset`."""
        self._content.refuse_if_offline()
        with self._content.failing():
            self._compacting.finish_swap()
            self._fully_and_start_at(offset)

    def begin_inside(self, base_offset: int, size: int) -> None:
        """Slow and rare. The log is empty, and its start lies inside the batch that comes next.

        Only the segment begins with the batch. The start and end of the log do not change, also after a restart if the
        batch was not written. So deleted records never become readable again.
        """
        content = self._content
        content.refuse_if_offline()
        validation.require_fits(content.name, size, content.config)
        with content.failing():
            self._compacting.finish_swap()
            self._lower_checkpoints(base_offset, content.log_start_offset)
            content.persist_checkpoints()  # without the log start, recovery would take missing segments for data loss
            self._begin_segments_at(base_offset)
            content.durability.sync_identity()

    def _to(self, offset: int) -> None:
        content, segments = self._content, self._content.segments
        if offset >= content.log_end_offset:
            content.leader_epochs.truncate_from_end(content.log_end_offset)
            return
        if offset < segments.in_order[0].base_offset:
            self._fully_and_start_at(offset)
            return
        found = segments.find(offset)
        end_offset = offset if found is None else min(offset, found[1].base_offset)
        self._lower_checkpoints(end_offset, min(content.log_start_offset, end_offset))
        for later in reversed(segments.take_after(end_offset)):
            self._remove(later)
        active = segments.active
        active.truncate_to(found[1].position if found is not None and found[0] is active else active.size)
        content.trusting_aborted(active, lambda index: index.truncate_to(end_offset))
        safeguards.sync_file(active.file)
        content.producers.cut_to(end_offset)
        self._end_at(end_offset)
        content.leader_epochs.truncate_from_end(end_offset)

    def _fully_and_start_at(self, offset: int) -> None:
        content = self._content
        start = min(offset, content.log_start_offset)
        self._lower_checkpoints(start, start)
        self._begin_segments_at(offset)
        content.log_start_offset = offset
        self._end_at(offset)
        # Before anything is written here: otherwise recovery would take the missing first segments for data loss.
        content.durability.sync_identity()
        content.persist_checkpoints()

    def _begin_segments_at(self, offset: int) -> None:
        content, segments = self._content, self._content.segments
        for segment in reversed(segments.in_order):
            self._remove(segment)
        self._expired.rename()
        created_ms = segments.active.created_ms
        segments.replace_all(Segment.create(content.folder, offset, content.config, created_ms))
        content.leader_epochs.clear()
        content.producers.clear()

    def _lower_checkpoints(self, end_offset: int, log_start: int) -> None:
        """Durably, before anything is removed: after a crash no recovery point may lie above rewritten records."""
        content = self._content
        lowered = content.durability.lower(end_offset, content.segments.since(end_offset)[0].base_offset)
        if content.cleaned_until is not None:
            cleaned_until = safeguards.cleaned_after_truncation(content.cleaned_until, end_offset)
            lowered = lowered or cleaned_until < content.cleaned_until
            content.cleaned_until = cleaned_until
        if lowered or log_start < content.log_start_offset or self._expired.on_disk:
            content.log_start_offset = log_start
            content.persist_checkpoints()

    def _end_at(self, offset: int) -> None:
        content = self._content
        content.log_end_offset = offset
        content.written_epoch = -1
        safeguards.sync_names(content.folder.disk, content.folder.path)

    def _remove(self, segment: Segment) -> None:
        segment.close()
        for name in reversed(segment.file_names()):
            self._content.folder.remove(name)
