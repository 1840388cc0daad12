"""One partition on one disk: segments of record batches in Kafka's format.

A log consists of parts, which share one `Content`: `appending` takes batches, `syncing` makes them durable,
`compacting`, `retention` and `truncation` remove them. The log itself reads, opens and closes.

All methods are synchronous and run on the event loop, except those marked *slow*. A slow method may run on another
thread while the loop does not use this log, or, where its docstring says so, while appends continue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicId, TopicPartition
from odradek.base.ports import Region
from odradek.log import time_search
from odradek.log.appending import Appending
from odradek.log.compacting import Compacting
from odradek.log.config import LogConfig
from odradek.log.content import Content
from odradek.log.deleted import forget
from odradek.log.durability import Durability
from odradek.log.folder import Folder
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.producers import Producers
from odradek.log.retention import Retention
from odradek.log.rolling import Rolling
from odradek.log.scan import batch_at
from odradek.log.segment import Segment
from odradek.log.segments import Segments
from odradek.log.syncing import Syncing
from odradek.log.time_search import TimestampedOffset
from odradek.log.transactions import AbortedTransaction
from odradek.log.truncation import Truncation


class Log(Content):
    __slots__ = ("appending", "compacting", "retention", "rolling", "syncing", "truncation")

    def __init__(
        self,
        folder: Folder,
        topic_partition: TopicPartition,
        config: LogConfig,
        segments: Segments,
        *,
        topic_id: TopicId | None,
        log_start_offset: int,
        log_end_offset: int,
        durability: Durability,
        leader_epochs: LeaderEpochs,
        snapshots: list[int],
        producers: Producers | None,
        jitter: Callable[[int], int],
        persist_checkpoints: Callable[[], None],
        cleaned_until: int | None = None,
    ) -> None:
        super().__init__(
            folder,
            topic_partition,
            config,
            segments,
            topic_id=topic_id,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            durability=durability,
            leader_epochs=leader_epochs,
            snapshots=snapshots,
            producers=producers,
            persist_checkpoints=persist_checkpoints,
            cleaned_until=cleaned_until,
        )
        self.rolling = Rolling(self, jitter)
        self.syncing = Syncing(self, self.rolling)
        self.compacting = Compacting(self, partial(forget, self))
        self.retention = Retention(self, self.rolling, self.compacting)
        self.truncation = Truncation(self, self.compacting, self.retention.expired)
        self.appending = Appending(self, self.rolling, self.truncation)

    @property
    def directory(self) -> str:
        return self.folder.path

    @property
    def offline(self) -> str | None:
        """Why this log accepts no appends, or None."""
        return self.failure

    @property
    def recovery_checkpoint(self) -> int:
        return self.durability.checkpoint

    @property
    def segment_count(self) -> int:
        return len(self.segments)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    # --- reading

    def read(self, offset: int, max_bytes: int, end_offset: int, whole_first_batch: bool) -> Region | None:
        """Whole batches of one segment below `end_offset`, beginning with the batch that holds `offset`; None if none.

        At most `max_bytes`. With `whole_first_batch` the first batch may be larger. The caller releases the Region.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not in {self.name}, which has {self.log_start_offset} to {self.log_end_offset}",
            )
        log_end = self.log_end_offset
        if end_offset > log_end:
            end_offset = log_end
        if offset >= end_offset:
            return None
        return self.segments.read(offset, max_bytes, end_offset, log_end, whole_first_batch=whole_first_batch)

    def read_committed(
        self, offset: int, max_bytes: int, end_offset: int, whole_first_batch: bool
    ) -> tuple[Region | None, list[AbortedTransaction]]:
        """The same, and the aborted transactions that may have records in it, by first offset."""
        region = self.read(offset, max_bytes, end_offset, whole_first_batch)
        if region is None:
            return None, []
        try:
            return region, self._aborted_in(region, offset)
        except BaseException:
            region.release()
            raise

    def _aborted_in(self, region: Region, offset: int) -> list[AbortedTransaction]:
        segments = self.segments.since(offset)
        if not any(segment.aborted.exists for segment in segments):
            return []
        end_offset = self._end_of(region, segments)
        found: list[AbortedTransaction] = []
        for segment in segments:
            aborted = self.trusting_aborted(segment, lambda index: index.search(offset, end_offset))
            found += aborted.transactions
            if aborted.complete:
                break
        return sorted(found, key=attrgetter("first_offset"))

    def _end_of(self, region: Region, segments: list[Segment]) -> int:
        """The offset after the last batch of a region that was just read."""
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            if segment.file is region.file:
                after = batch_at(segment.file, region.position + region.length, segment.size)
                if after is not None:
                    return after.base_offset
                return self.log_end_offset if following is None else following.base_offset
        return self.log_end_offset

    def offset_for_timestamp(self, timestamp: int, end_offset: int) -> TimestampedOffset | None:
        """Slow; appends may continue. The first record below `end_offset` that is not older than `timestamp`."""
        return time_search.first_since(self.segments, timestamp, self.log_start_offset, end_offset)

    def max_timestamp_offset(self) -> TimestampedOffset | None:
        """Slow; appends may continue. The first record with the largest timestamp."""
        return time_search.latest(self.segments, self.log_start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest known epoch up to `leader_epoch`, and its end offset. (-1, -1) when unknown."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    # --- closing

    def close(self) -> None:
        """Slow. Write and sync everything, as at a clean stop, unless the log is offline."""
        if self.failure is None:
            self.write_everything()
            if self.has_to_sync:
                self.syncing.whole()
        self.release()

    def write_everything(self) -> None:
        """Write everything except the epochs, which must wait for the sync. Not durable yet. No appends after this."""
        self.refuse_if_offline()
        with self.failing():
            self.compacting.finish_swap()
            self.producers.snapshot(self.log_end_offset)
            if self.segments.active.grows:
                self.segments.active.seal()

    def write_epochs(self) -> None:
        with self.failing():
            self.durability.write_epochs(self.leader_epochs)

    @property
    def has_to_sync(self) -> bool:
        return self.durability.has_to_sync(self.log_end_offset, self.leader_epochs)

    def synced_with_everything(self) -> None:
        """The whole disk was synced after `write_everything`."""
        self.durability.synced_all(self.log_end_offset)

    def release(self) -> None:
        """Close the files without writing anything."""
        self.failure = self.failure or "closed"
        for segment in self.segments.in_order:
            segment.close()

    def moved_to(self, directory: str) -> None:
        """The directory was renamed."""
        self.folder.path = directory
