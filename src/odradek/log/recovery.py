"""Opening a log: after a clean stop only by its file names, otherwise also by reading what was not synced.

Recovery starts with the segment of the recovery point and keeps the longest run of whole batches. It truncates the file
after the last one. It deletes every later segment that does not begin where the segment before it now ends. All this is
durable before the log accepts appends. Otherwise, after another crash, deleted data could reappear among newer data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from odradek.base.ids import TopicPartition
from odradek.base.ports import Disk
from odradek.log import safeguards
from odradek.log.checkpoints import decode_epochs, decode_topic_id, read_checkpoint
from odradek.log.config import LogConfig
from odradek.log.durability import Durability
from odradek.log.folder import (
    DELETED,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    TRANSACTION_INDEX,
    Folder,
    offset_name,
    offsets_by_suffix,
)
from odradek.log.indexes import ActiveIndexes
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log import Log
from odradek.log.producer_history import rebuild_aborted, restore_producers
from odradek.log.scan import headers, verified
from odradek.log.segment import RELATIVE_OFFSET_MAX, Segment
from odradek.log.segments import Segments
from odradek.log.swap import finish_swaps
from odradek.protocol.batch import CONTROL

story = logging.getLogger(__name__)

HALF_WRITTEN = ".tmp"  # was about to replace another file
METADATA_SNAPSHOT_DELETED = ".checkpoint" + DELETED  # of the metadata log: its owner removes them


def no_jitter(_bound: int) -> int:
    return 0


def nothing_to_persist() -> None:
    """For a log without a LogDirectory: it has no checkpoints, so recovery always scans everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOpening:
    """What is known about a log before its directory is read."""

    topic_partition: TopicPartition
    config: LogConfig
    wall_ms: int
    directory: str = ""  # if it is not named after the partition
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_until: int | None = None  # how far it was compacted; None if it never had gaps
    from_kafka: bool = False  # Kafka compacts also above its recovery point
    stopped_cleanly: bool = False
    disk_synced: bool = False  # since the last process used it: everything readable would survive a power cut
    jitter: Callable[[int], int] = field(default=no_jitter)
    persist_checkpoints: Callable[[], None] = field(default=nothing_to_persist)


def open_log(disk: Disk, opening: LogOpening) -> Log:
    """Slow. Open the log in an existing directory. An empty directory is an empty log."""
    return _Loader(disk, opening).load()


class _Loader:
    def __init__(self, disk: Disk, opening: LogOpening) -> None:
        self.opening = opening
        self.config = opening.config
        self.folder = Folder(disk, opening.directory or str(opening.topic_partition))
        self._look()
        if finish_swaps(self.folder, self.offsets):
            story.warning("%s: completed or undid an interrupted compaction", self.folder.path)
            self._look()
        self.log_start = opening.log_start_offset
        self.cleaned_until = opening.cleaned_until
        self.removed = False
        self.scanned: list[Segment] = []
        self.has_markers = False  # the scanned segments have ends of transactions

    def _look(self) -> None:
        self.names = self.folder.names()
        self.offsets = offsets_by_suffix(self.names)

    def load(self) -> Log:
        self._remove_leftovers()
        segments = self._segments()
        end_offset = self._end_after_clean_stop(segments)
        clean = end_offset is not None
        epochs = self._epochs(segments)
        if end_offset is None:
            segments, end_offset = self._recover(segments, epochs)
        if end_offset < self.log_start:
            story.warning(
                "%s ends at %d, before its log start offset %d: starting empty there",
                self.folder.path,
                end_offset,
                self.log_start,
            )
            self._drop(segments)
            for name in [name for name in self.names if name.endswith(SNAPSHOT)]:
                self._remove(name)
            segments, end_offset = [], self.log_start
        if not segments:
            segments = [Segment.create(self.folder, end_offset, self.config, self.opening.wall_ms)]
        self.log_start = max(self.log_start, segments[0].base_offset)
        epochs.truncate_from_end(end_offset)
        epochs.truncate_from_start(self.log_start)
        snapshots = self._snapshots(segments, end_offset)
        if self.removed or not (clean or self.opening.disk_synced):
            safeguards.sync_names(self.folder.disk, self.folder.path)
        return self._log(segments, end_offset, epochs, snapshots, clean=clean)

    def _log(
        self, segments: list[Segment], end_offset: int, epochs: LeaderEpochs, snapshots: list[int], *, clean: bool
    ) -> Log:
        opening = self.opening
        scanned = [segment for segment in self.scanned if segment in segments]
        if scanned and safeguards.rebuilds_transaction_index():
            self._rebuild_aborted(scanned, segments, snapshots)
        producers = None
        if not (clean and end_offset in snapshots):
            producers = restore_producers(self.folder, snapshots, segments, end_offset)
            producers.expire(opening.wall_ms, self.config.producer_id_expiration_ms)
        recovery_point = end_offset if clean else min(opening.recovery_point, end_offset)
        durability = Durability(self.folder, recovery_point, is_new=not clean and recovery_point == 0)
        in_order = Segments(segments)
        durability.indexed_to = in_order.since(recovery_point)[0].base_offset
        if not clean:
            self._distrust(durability, epochs, snapshots, segments)
        return Log(
            self.folder,
            opening.topic_partition,
            self.config,
            in_order,
            topic_id=read_checkpoint(self.folder.disk, self.folder.at(PARTITION_METADATA), decode_topic_id),
            log_start_offset=self.log_start,
            log_end_offset=end_offset,
            durability=durability,
            leader_epochs=epochs,
            snapshots=snapshots,
            producers=producers,
            jitter=opening.jitter,
            persist_checkpoints=opening.persist_checkpoints,
            cleaned_until=self.cleaned_until,
        )

    def _rebuild_aborted(self, scanned: list[Segment], segments: list[Segment], snapshots: list[int]) -> None:
        """The indexes of segments that were not synced may be incomplete, or have entries of lost batches."""
        if self.has_markers:
            rebuild_aborted(self.folder, snapshots, segments, scanned)
        else:
            for segment in scanned:
                segment.aborted.replace([])

    def _distrust(
        self, durability: Durability, epochs: LeaderEpochs, snapshots: list[int], segments: list[Segment]
    ) -> None:
        """Files of the stopped process may be in the page cache only: include them in the next sync."""
        epochs.changed = True
        self.folder.names_changed = True
        for offset in snapshots:
            if offset >= durability.recovery_point:
                durability.also_sync(offset_name(offset, SNAPSHOT))
        for segment, following in pairwise(segments):
            if following.base_offset == durability.recovery_point:
                # Its batches were synced while it was active, but perhaps not its indexes.
                for name in segment.index_names():
                    durability.also_sync(name)
        if durability.is_new and PARTITION_METADATA in self.names:
            durability.also_sync(PARTITION_METADATA)

    # --- names

    def _remove_leftovers(self) -> None:
        for name in list(self.names):
            deleted = name.endswith(DELETED) and not name.endswith(METADATA_SNAPSHOT_DELETED)
            if deleted or name.endswith(HALF_WRITTEN):
                self._remove(name)
        logs = dict.fromkeys(self.offsets.get(LOG, []))
        for suffix in SEGMENT_SUFFIXES:
            for orphan in [offset for offset in self.offsets.get(suffix, []) if offset not in logs]:
                self._remove(offset_name(orphan, suffix))

    def _segments(self) -> list[Segment]:
        bases = self.offsets.get(LOG, [])
        segments = [self._open(base) for base in bases]
        # Retention makes the log start durable before it removes files. A crash may have left some of them.
        below = sum(1 for base in bases[1:] if base <= self.log_start)
        if below:
            safeguards.sync_names(self.folder.disk, self.folder.path)  # the log now begins with the segments that stay
            self._drop(segments[:below])
        return segments[below:]

    def _open(self, base: int) -> Segment:
        file = self.folder.open(offset_name(base, LOG))
        interval = self.config.index_interval_bytes
        return Segment(
            self.folder,
            base,
            file,
            file.size(),
            interval=interval,
            wall_ms=self.opening.wall_ms,
            has_aborted=base in self.offsets.get(TRANSACTION_INDEX, []),
        )

    def _drop(self, segments: list[Segment]) -> None:
        for segment in reversed(segments):
            segment.close()
            for name in segment.file_names():
                self._remove(name)

    def _remove(self, name: str) -> None:
        self.folder.remove(name)
        self.removed = True
        if name in self.names:
            self.names.remove(name)

    def _snapshots(self, segments: list[Segment], end_offset: int) -> list[int]:
        """The snapshots at segment starts and the newest one. The others are removed, as are those outside the log."""
        starts = {segment.base_offset: None for segment in segments}
        found = offsets_by_suffix(self.names).get(SNAPSHOT, [])
        known = [offset for offset in found if segments[0].base_offset <= offset <= end_offset]
        kept = [offset for offset in known if offset in starts or offset == known[-1]]
        for offset in found:
            if offset not in kept:
                self._remove(offset_name(offset, SNAPSHOT))
        return kept

    # --- content

    def _end_after_clean_stop(self, segments: list[Segment]) -> int | None:
        """A clean stop syncs everything, so the log ends at its recovery point. None when that is implausible."""
        if not self.opening.stopped_cleanly and safeguards.scans_after_unclean_stop():
            return None
        if not segments:
            return None
        last, end_offset = segments[-1], self.opening.recovery_point
        if not safeguards.scans_after_unclean_stop():
            end_offset = _unchecked_end(last)
        if end_offset == last.base_offset:
            plausible = last.size == 0
        else:
            # After a truncation inside a gap of compaction, the last segment may be empty and begin before the end.
            plausible = end_offset > last.base_offset and (last.size > 0 or self.cleaned_until is not None)
        return end_offset if plausible else None

    def _epochs(self, segments: list[Segment]) -> LeaderEpochs:
        if LEADER_EPOCHS in self.names:
            entries = read_checkpoint(self.folder.disk, self.folder.at(LEADER_EPOCHS), decode_epochs)
            if entries is not None:
                return LeaderEpochs(entries)
        epochs = LeaderEpochs()
        for segment in segments:
            for seen in headers(segment.file, 0, segment.size):
                if seen.leader_epoch > epochs.latest:
                    epochs.assign(seen.leader_epoch, seen.base_offset)
        return epochs

    def _recover(self, segments: list[Segment], epochs: LeaderEpochs) -> tuple[list[Segment], int]:
        """The segments that are kept, and their end offset."""
        if segments and self._lacks_its_beginning(segments[0]) and safeguards.drops_what_follows_a_hole():
            story.warning(
                "%s: records before offset %d are missing, deleting all segments",
                self.folder.path,
                segments[0].base_offset,
            )
            self._drop(segments)
            return [], self.log_start
        after = [index for index, segment in enumerate(segments) if segment.base_offset > self.opening.recovery_point]
        first = max(0, (after[0] if after else len(segments)) - 1)
        end_offset = segments[first].base_offset if segments else self.log_start
        # Epochs from here on are read from the batches. Entries of the checkpoint before the first batch may be
        # outdated: a log that restarted at a higher offset writes its epochs only with its next sync.
        epochs.truncate_from_end(end_offset if first else 0)
        for index in range(first, len(segments)):
            segment = segments[index]
            if not self._continues(segment.base_offset, end_offset) and safeguards.drops_what_follows_a_hole():
                story.warning(
                    "%s: nothing between offsets %d and %d, deleting the segments after the gap",
                    self.folder.path,
                    end_offset,
                    segment.base_offset,
                )
                self._drop(segments[index:])
                return segments[:index], end_offset
            if index > first:
                segments[index - 1].seal()
            self.scanned.append(segment)
            end_offset = self._recover_segment(segment, epochs)
        return segments, end_offset

    def _lacks_its_beginning(self, first: Segment) -> bool:
        """Nothing was ever synced, and after a power cut the first segment is missing but later ones are there.

        A sync writes the epochs and later a recovery point; retention writes a log start offset.
        """
        never_synced = self.opening.recovery_point == 0 and LEADER_EPOCHS not in self.names
        return never_synced and first.base_offset > self.log_start

    def _recover_segment(self, segment: Segment, epochs: LeaderEpochs) -> int:
        indexes = ActiveIndexes(segment.base_offset, self.config.index_interval_bytes)
        end_offset, end_position = segment.base_offset, 0
        for seen in verified(segment.file, segment.size):
            if not self._follows(seen.base_offset, end_offset):
                break
            if seen.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
                break
            indexes.note(seen.last_offset, seen.position, seen.max_timestamp)
            if seen.attributes & CONTROL and seen.producer_id >= 0:
                self.has_markers = True
            if seen.leader_epoch > epochs.latest:
                epochs.assign(seen.leader_epoch, seen.base_offset)
            end_offset, end_position = seen.last_offset + 1, seen.end_position
        torn = segment.size - end_position
        segment.grow_with(indexes)
        if torn and safeguards.cuts_torn_tail():
            story.warning(
                "%s: truncated %d bytes that are not a whole batch, it ends at offset %d",
                segment.file.path,
                torn,
                end_offset,
            )
            segment.size = end_position
            segment.trim()
        if torn or not self.opening.disk_synced:
            safeguards.sync_file(segment.file)
        return end_offset

    def _continues(self, base_offset: int, end_offset: int) -> bool:
        """A segment begins where the one before it ends. Compaction may leave gaps, but only below the durable end.

        A gap too large for one segment is also accepted: it is more than a crash could have lost.
        """
        durable = max(self.opening.recovery_point, self.cleaned_until or 0)
        spannable = base_offset - end_offset <= RELATIVE_OFFSET_MAX
        if self.opening.from_kafka or base_offset <= durable or not spannable:
            return base_offset >= end_offset
        return base_offset == end_offset

    def _follows(self, base_offset: int, end_offset: int) -> bool:
        """A batch begins where the one before it ends, except in a log that is known to have gaps.

        The current cleanup.policy does not decide this: it may have changed, and a leader sends batches with gaps.
        """
        if base_offset <= end_offset or base_offset <= self.opening.recovery_point:
            return base_offset >= end_offset
        if self.cleaned_until is None and (self.config.compacts or self.opening.from_kafka):
            self.cleaned_until = 0
        return self.cleaned_until is not None


def _unchecked_end(segment: Segment) -> int:
    """The end offset according to the headers, without verification."""
    end_offset = segment.base_offset
    for seen in headers(segment.file, 0, segment.size):
        end_offset = seen.last_offset + 1
    return end_offset
