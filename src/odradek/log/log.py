"""One partition on one disk: segments of record batches in Kafka's format.

All methods are synchronous and run on the event loop, except those marked *slow*. A slow method may run on another
thread while the loop does not use this log, or, where its docstring says so, while appends continue.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicId, TopicPartition
from odradek.base.ports import ByteSource, Region
from odradek.log import safeguards, time_search, validation
from odradek.log.appended import Appended
from odradek.log.cleanable import Dirt, dirt, segments_to_clean
from odradek.log.cleaning import CleaningPlan, Replacement
from odradek.log.config import LogConfig
from odradek.log.durability import Durability, SyncWork
from odradek.log.folder import LOG, Folder, offset_name
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.producer_memory import ProducerMemory
from odradek.log.producers import Producers
from odradek.log.retention import DeletedSegment, Expired, expired_segments
from odradek.log.segment import RELATIVE_OFFSET_MAX, UNARMED, Segment
from odradek.log.segments import Segments
from odradek.log.swap import Swap
from odradek.log.time_search import TimestampedOffset
from odradek.protocol.batch import (
    CHECKED_FROM,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    OFFSET_LENGTH_EPOCH,
    TRANSACTIONAL,
    has_valid_checksum,
    iter_batches,
    stamp_append_time,
)
from odradek.protocol.compression import Codec
from odradek.protocol.malformed import MalformedRecords

story = logging.getLogger(__name__)

NOT_FROM_CLIENTS = LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON
CODEC_MAX = int(max(Codec))

_new = tuple.__new__  # in every request: the constructor of a NamedTuple takes three times as long


class Log:
    __slots__ = (
        "_config",
        "_durability",
        "_expired",
        "_failure",
        "_folder",
        "_jitter",
        "_jitter_ms",
        "_persist_checkpoints",
        "_producers",
        "_segments",
        "_swap",
        "_written_epoch",
        "cleaned_until",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "name",
        "rolled_since_sync",
        "topic_id",
        "topic_partition",
        "unreadable",
    )

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
        self._folder = folder
        self.topic_partition = topic_partition
        self.name = str(topic_partition)
        self.topic_id = topic_id
        self._config = config
        self._segments = segments
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self._durability = durability
        self.leader_epochs = leader_epochs
        self._written_epoch = -1  # of the last append: it is in the epoch cache already
        self._producers = ProducerMemory(folder, segments, durability, snapshots=snapshots, known=producers)
        self._jitter = jitter  # returns a random number below its argument
        self._jitter_ms = self._draw_jitter()
        self._persist_checkpoints = persist_checkpoints
        self._failure: str | None = None  # why nothing more can be appended
        # Everything before it was compacted. None: this log never had gaps in its offsets. It is above the recovery
        # point only when that was lost; then only this value says that a gap is not data loss.
        self.cleaned_until = cleaned_until if cleaned_until is None else min(cleaned_until, log_end_offset)
        self.unreadable: str | None = None  # why compaction skips this log
        self._swap: Swap | None = None
        self._expired = Expired()
        self.rolled_since_sync = False  # a sealed segment waits for a sync in the background

    @property
    def directory(self) -> str:
        return self._folder.path

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._segments.active.roll_bytes = UNARMED

    @property
    def offline(self) -> str | None:
        """Why this log accepts no appends, or None."""
        return self._failure

    @property
    def recovery_point(self) -> int:
        """Everything before it is durable."""
        return self._durability.recovery_point

    @property
    def recovery_checkpoint(self) -> int:
        return self._durability.checkpoint

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    # --- appending

    def append_as_leader(self, batch: memoryview, leader_epoch: int, wall_ms: int) -> Appended:
        """Append exactly one batch of a client. Base offset and epoch are written into its buffer.

        The records are not checked. For a compacted topic, call `validation.require_keys` first.
        """
        size = len(batch)
        config = self._config
        if size < HEADER_BYTES:
            raise validation.refusal(batch, config)
        (base, length, _, magic, checksum, attributes, delta, first_time, max_time, pid, pid_epoch, sequence, count) = (
            HEADER.unpack_from(batch)
        )
        if (
            magic != MAGIC
            or length + LOG_OVERHEAD != size
            or size > config.max_message_bytes
            or base != 0
            or count <= 0
            or count != delta + 1
            or attributes & NOT_FROM_CLIENTS
            or attributes & CODEC_MASK > CODEC_MAX
            or (pid >= 0 and (sequence | pid_epoch) < 0)
        ):
            raise validation.refusal(batch, config)
        if not safeguards.accepts_checksum(checksum, batch[CHECKED_FROM:]):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.name}: the batch does not match its checksum")
        append_time = -1
        if config.stamps_append_time:
            append_time = max_time = wall_ms
            stamp_append_time(batch, wall_ms)
        elif (
            max_time - wall_ms > config.message_timestamp_after_max_ms
            or first_time - wall_ms > config.message_timestamp_after_max_ms
            or wall_ms - first_time > config.message_timestamp_before_max_ms
            or wall_ms - max_time > config.message_timestamp_before_max_ms
        ):
            validation.check_timestamps(first_time, max_time, config, wall_ms)
        if pid < 0:
            return self._append(batch, length, delta, max_time, leader_epoch, wall_ms, append_time)
        producers = self._producers.known or self.known_producers(wall_ms)
        duplicate = producers.check(pid, pid_epoch, sequence, delta)
        if duplicate is not None:
            append_time = duplicate.timestamp if config.stamps_append_time else -1
            return self._appended(duplicate.first_offset, duplicate.last_offset, append_time, duplicate=True)
        appended = self._append(batch, length, delta, max_time, leader_epoch, wall_ms, append_time)
        producers.record(pid, pid_epoch, sequence, appended.last_offset, delta, max_time)
        return appended

    def append_trusted(self, batch: bytearray, leader_epoch: int, wall_ms: int) -> Appended:
        """Append one batch of the broker itself: coordinator, control or metadata records. No client checks apply."""
        _, length, _, _, _, _, delta, _, max_time, pid, pid_epoch, sequence, _ = HEADER.unpack_from(batch)
        # Before the write: the producer state restored from the log must not include this batch.
        producers = self.known_producers(wall_ms) if pid >= 0 and sequence >= 0 else None
        appended = self._append(batch, length, delta, max_time, leader_epoch, wall_ms, -1)
        if producers is not None:
            producers.record(pid, pid_epoch, sequence, appended.last_offset, delta, max_time)
        return appended

    def append_as_follower(self, batches: memoryview, wall_ms: int) -> None:
        """Append whole batches from the leader, with its offsets and epochs. An incomplete last batch is ignored."""
        try:
            for header, data in iter_batches(batches):
                if not has_valid_checksum(data):
                    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.name}: wrong checksum at {header.base_offset}")
                if header.base_offset < self.log_end_offset:
                    if not self.log_start_offset == self.log_end_offset <= header.last_offset:
                        raise KafkaError(
                            ErrorCode.OFFSET_OUT_OF_RANGE,
                            f"{self.name} ends at {self.log_end_offset}, the leader sent offset {header.base_offset}",
                        )
                    self._begin_inside(header.base_offset, len(data))
                elif header.base_offset > self.log_end_offset:
                    self._skip_to(header.base_offset, header.last_offset, wall_ms)
                if header.leader_epoch >= 0:
                    self._note_epoch(header.leader_epoch, max(header.base_offset, self.log_start_offset))
                # Before the write: the producer state restored from the log must not include this batch.
                named = header.producer_id >= 0 and not header.is_control
                producers = self.known_producers(wall_ms) if named else None
                self._write(data, header.last_offset, header.max_timestamp, wall_ms)
                if producers is not None:
                    producers.record(
                        header.producer_id,
                        header.producer_epoch,
                        header.base_sequence,
                        header.last_offset,
                        header.last_offset_delta,
                        header.max_timestamp,
                    )
        except MalformedRecords as broken:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.name}: {broken}") from broken

    def _begin_inside(self, base_offset: int, size: int) -> None:
        """Slow and rare. The log is empty, and its start lies inside the batch that comes next.

        Only the segment begins with the batch. The start and end of the log do not change, also after a restart if the
        batch was not written. So deleted records never become readable again.
        """
        self._refuse_if_offline()
        validation.require_fits(self.name, size, self._config)
        with self._failing():
            self._finish_swap()
            self._lower_checkpoints(base_offset, self.log_start_offset)
            self._persist_checkpoints()  # without the log start, recovery would take missing segments for data loss
            self._begin_segments_at(base_offset)
            self._durability.sync_identity()

    def _skip_to(self, offset: int, last_offset: int, wall_ms: int) -> None:
        """The next batch of the leader begins at `offset`: compaction removed the records before it."""
        if self.cleaned_until is None:
            self.cleaned_until = 0
            try:
                self._persist_checkpoints()  # without it, recovery after a crash would take the gap for data loss
            except OSError as broken:
                self.cleaned_until = None
                raise self._fail(broken) from broken
        if last_offset - self.log_end_offset > RELATIVE_OFFSET_MAX:
            # A segment that begins at the log end could not hold such a large relative offset.
            self.log_end_offset = offset
            with self._failing():
                self._roll_at(offset, wall_ms)

    def _append(
        self,
        batch: memoryview | bytearray,
        length: int,
        delta: int,
        max_time: int,
        leader_epoch: int,
        wall_ms: int,
        append_time: int,
    ) -> Appended:
        offset = self.log_end_offset
        if leader_epoch != self._written_epoch:
            self._note_epoch(leader_epoch, offset)
        OFFSET_LENGTH_EPOCH.pack_into(batch, 0, offset, length, leader_epoch)
        self._write(batch, offset + delta, max_time, wall_ms)
        return self._appended(offset, offset + delta, append_time, duplicate=False)

    def _appended(self, base_offset: int, last_offset: int, append_time: int, *, duplicate: bool) -> Appended:
        needs_sync = self.log_end_offset - self._durability.recovery_point >= self._config.flush_messages
        return _new(Appended, (base_offset, last_offset, append_time, self.log_start_offset, duplicate, needs_sync))

    def _write(self, batch: ByteSource, last_offset: int, max_time: int, wall_ms: int) -> None:
        if self._failure is not None:
            self._refuse_if_offline()
        segment = self._segments.active
        if (
            segment.size + len(batch) > segment.roll_bytes
            or max_time > segment.roll_timestamp
            or wall_ms > segment.roll_wall_ms
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        ):
            segment = self._make_room(len(batch), last_offset, max_time, wall_ms)
        try:
            indexed = segment.write(batch, last_offset, max_time)
        except OSError as broken:
            raise self._fail(broken) from broken
        self.log_end_offset = last_offset + 1
        if segment.size == len(batch):
            segment.arm(self._config, self._jitter_ms)
        elif indexed and segment.indexes_full(self._config.segment_index_bytes):
            segment.roll_bytes = 0

    def _make_room(self, size: int, last_offset: int, max_time: int, wall_ms: int) -> Segment:
        """The segment for the next batch: the active one if it has room after all, or a new one."""
        config = self._config
        validation.require_fits(self.name, size, self._config)
        with self._failing():
            segment = self._segments.active
            if segment.roll_bytes == UNARMED:
                segment.arm(config, self._jitter_ms)
            if segment.size and (
                segment.size + size > segment.roll_bytes
                or max_time > segment.roll_timestamp
                or wall_ms > segment.roll_wall_ms
                or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            ):
                self._roll(wall_ms)
        return self._segments.active

    def _roll(self, wall_ms: int) -> None:
        base_offset = self._segments.next_base(self.log_end_offset)
        if base_offset < self.recovery_point:
            # Otherwise recovery would trust the indexes of the segment that is sealed now.
            self._durability.recovery_point = base_offset
            self._persist_checkpoints()
        self._roll_at(base_offset, wall_ms)

    def _roll_at(self, base_offset: int, wall_ms: int) -> None:
        """Write a producer snapshot first, so that a later recovery can begin at the new segment."""
        self._producers.snapshot(base_offset)
        self._segments.active.seal()
        for name in (offset_name(self._segments.active.base_offset, LOG), *self._segments.active.index_names()):
            # Also when all its batches are durable: the file was just trimmed, and its indexes just written.
            self._durability.also_sync(name)
        self._segments.add(Segment.create(self._folder, base_offset, self._config, wall_ms))
        self._jitter_ms = self._draw_jitter()
        self._segments.active.arm(self._config, self._jitter_ms)
        self.rolled_since_sync = True

    def _draw_jitter(self) -> int:
        bound = min(self._config.segment_jitter_ms, self._config.roll_ms)
        return self._jitter(bound) if bound > 0 else 0

    def _fail(self, broken: OSError | KafkaError) -> KafkaError:
        """The content of the file is unknown now, so the log goes offline. Bytes after the last batch are removed."""
        if self._failure is None:  # if set: it failed before, or was deleted and closed during the sync
            if safeguards.stays_offline_after_failure():
                self._failure = str(broken)
                story.error("%s is offline and accepts no records until it is reopened: %s", self.name, broken)
            with contextlib.suppress(OSError):
                self._segments.active.trim()
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name}: {broken}")

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as broken:
            raise self._fail(broken) from broken

    def _refuse_if_offline(self) -> None:
        if self._failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} is offline: {self._failure}")

    def _note_epoch(self, leader_epoch: int, offset: int) -> None:
        self.leader_epochs.assign(leader_epoch, offset)
        self._written_epoch = leader_epoch

    def begin_epoch(self, leader_epoch: int) -> None:
        """This replica leads now. Its first record of this epoch, if there is one, will be at the log end."""
        self._note_epoch(leader_epoch, self.log_end_offset)

    # --- producers

    def known_producers(self, wall_ms: int) -> Producers:
        memory = self._producers
        if memory.known is None:
            memory.restored(self.log_end_offset).expire(wall_ms, self._config.producer_id_expiration_ms)
        return memory.restored(self.log_end_offset)

    def expire_producers(self, wall_ms: int) -> None:
        if self._producers.known is not None:
            self._producers.known.expire(wall_ms, self._config.producer_id_expiration_ms)

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
        end_offset = min(end_offset, self.log_end_offset)
        if offset >= end_offset:
            return None
        return self._segments.read(
            offset, max_bytes, end_offset, self.log_end_offset, whole_first_batch=whole_first_batch
        )

    def offset_for_timestamp(self, timestamp: int, end_offset: int) -> TimestampedOffset | None:
        """Slow; appends may continue. The first record below `end_offset` that is not older than `timestamp`."""
        return time_search.first_since(self._segments, timestamp, self.log_start_offset, end_offset)

    def max_timestamp_offset(self) -> TimestampedOffset | None:
        """Slow; appends may continue. The first record with the largest timestamp."""
        return time_search.latest(self._segments, self.log_start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest known epoch up to `leader_epoch`, and its end offset. (-1, -1) when unknown."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    # --- durability

    @property
    def sync_in_flight(self) -> bool:
        return self._durability.in_flight

    def begin_sync(self) -> SyncWork:
        """Begin a sync of everything appended so far. `run` it on any thread, then `finish_sync`. One at a time."""
        return self._begin_sync(self.log_end_offset)

    def begin_sync_of_rolled(self) -> SyncWork:
        """Begin a sync of the sealed segments only, in the background after a roll."""
        return self._begin_sync(self._segments.active.base_offset)

    def finish_sync(self, work: SyncWork) -> None:
        self._durability.finish(work)
        if work.error is not None:
            raise self._fail(work.error) from work.error
        if self.recovery_checkpoint >= self._segments.active.base_offset:
            self.rolled_since_sync = False

    def sync(self) -> None:
        """Slow."""
        work = self.begin_sync()
        work.run()
        self.finish_sync(work)

    def sync_due(self, wall_ms: int) -> bool:
        """Whether flush.ms has passed since the first call with something unsynced."""
        return self._durability.is_due(self.log_end_offset, self._config.flush_ms, wall_ms)

    def _begin_sync(self, end_offset: int) -> SyncWork:
        self._refuse_if_offline()
        try:
            return self._durability.begin(self._segments, self.leader_epochs, end_offset)
        except (OSError, KafkaError) as broken:
            raise self._fail(broken) from broken

    def close(self) -> None:
        """Slow. Write and sync everything, as at a clean stop, unless the log is offline."""
        if self._failure is None:
            self.write_everything()
            if self.has_to_sync:
                self.sync()
        self.release()

    def write_everything(self) -> None:
        """Write everything except the epochs, which must wait for the sync. Not durable yet. No appends after this."""
        self._refuse_if_offline()
        with self._failing():
            self._finish_swap()
            self._producers.snapshot(self.log_end_offset)
            if self._segments.active.grows:
                self._segments.active.seal()

    def write_epochs(self) -> None:
        with self._failing():
            self._durability.write_epochs(self.leader_epochs)

    @property
    def has_to_sync(self) -> bool:
        return self._durability.has_to_sync(self.log_end_offset, self.leader_epochs)

    def synced_with_everything(self) -> None:
        """The whole disk was synced after `write_everything`."""
        self._durability.synced_all(self.log_end_offset)

    def release(self) -> None:
        """Close the files without writing anything."""
        self._failure = self._failure or "closed"
        for segment in self._segments.in_order:
            segment.close()

    def moved_to(self, directory: str) -> None:
        """The directory was renamed."""
        self._folder.path = directory

    # --- compacting

    def dirt(self, last_stable_offset: int, wall_ms: int) -> Dirt:
        """What compaction could clean now."""
        return dirt(
            self._segments,
            self._config,
            dirty_from=max(self.cleaned_until or 0, self.log_start_offset),
            last_stable_offset=last_stable_offset,
            durable_to=self.recovery_checkpoint,
            wall_ms=wall_ms,
        )

    def plan_cleaning(self, dirt: Dirt, high_watermark: int, wall_ms: int, key_bytes_max: int) -> CleaningPlan:
        """The input of `cleaning.clean`, with the current segments."""
        config = self._config
        return CleaningPlan(
            directory=self._folder.path,
            history=self._durability.history,
            segments=segments_to_clean(dirt, self._segments),
            dirty_from=dirt.dirty_from,
            high_watermark=high_watermark,
            wall_ms=wall_ms,
            delete_retention_ms=config.delete_retention_ms,
            last_batches=self.known_producers(wall_ms).last_batches(high_watermark),
            epoch_starts=frozenset(start for epoch, start in self.leader_epochs.entries() if epoch),
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            key_bytes_max=key_bytes_max,
        )

    def begin_swap(self, plan: CleaningPlan, replacement: Replacement) -> Swap | None:
        """The caller runs its steps, or other code that changes file names does. None when the plan is out of date."""
        here = [segment.base_offset for segment in self._segments.in_order[:-1]]
        if not self.is_as_planned(plan) or not all(base in here for base in replacement.old):
            return None
        self._swap = Swap(
            self._folder, self._segments, replacement, interval=plan.index_interval_bytes, forget=self._deleted
        )
        return self._swap

    def step_swap(self) -> bool:
        """Run the next step. False when it was the last. The caller syncs after each step."""
        if self._swap is None or self._failure is not None:
            return False
        with self._failing():
            if self._swap.step():
                return True
        self._swap = None
        return False

    def is_as_planned(self, plan: CleaningPlan) -> bool:
        """True when the log has neither failed nor been truncated since. Retention may have removed segments."""
        return self._failure is None and plan.history == self._durability.history

    def cleaned(self, plan: CleaningPlan, end_offset: int) -> None:
        """Every replacement of this run is durably in place."""
        if plan.history == self._durability.history:
            self.cleaned_until = max(self.cleaned_until or 0, end_offset)

    def _finish_swap(self) -> None:
        """Slow. Run the remaining steps before other code changes file names. The code that runs the swap ends it."""
        if self._swap is not None:
            self._swap.sync()
            while self._swap.step():
                self._swap.sync()

    # --- shrinking

    def advance_log_start(self, offset: int) -> None:
        """Stop serving records before `offset`, which may be inside a batch. Retention removes their segments."""
        if offset > self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is beyond the end of {self.name}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    def delete_expired(self, wall_ms: int, high_watermark: int) -> list[DeletedSegment]:
        """Remove expired segments from the log. `LogDirectory.retire` removes their files."""
        if self._swap is not None:
            return []  # try again later: a swap is renaming files
        with self._failing():
            count = expired_segments(
                self._segments,
                self._config,
                log_start=self.log_start_offset,
                log_end=self.log_end_offset,
                high_watermark=high_watermark,
                wall_ms=wall_ms,
            )
        if count == len(self._segments) and not self._has_rolled(wall_ms):
            count -= 1
        exposed = self._segments.since(self.recovery_point)
        taken = self._segments.take_first(count)
        for segment in taken:
            if segment in exposed:
                # A crash before the new log start is durable brings it back: unsynced, it would be a hole in the log.
                self._durability.also_sync(offset_name(segment.base_offset, LOG))
        self.advance_log_start(self._segments.in_order[0].base_offset)
        return self._expired.add([self._deleted(segment) for segment in taken])

    def _has_rolled(self, wall_ms: int) -> bool:
        """Roll, if the disk allows it. On a full disk the other expired segments are removed without a roll."""
        with contextlib.suppress(KafkaError), self._failing():
            self._refuse_if_offline()
            self._roll(wall_ms)
            return True
        return False

    def _deleted(self, segment: Segment) -> DeletedSegment:
        names = [*segment.file_names(), *self._producers.forget_snapshot(segment.base_offset)]
        return DeletedSegment(folder=self._folder, segment=segment, names=tuple(names))

    def truncate_to(self, offset: int) -> None:
        """Slow. Remove everything from `offset` on, including the whole batch that holds it."""
        self._refuse_if_offline()
        with self._failing():
            self._finish_swap()
            self._truncate_to(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Slow. Remove everything. The next record gets `offset`."""
        self._refuse_if_offline()
        with self._failing():
            self._finish_swap()
            self._truncate_fully(offset)

    def _truncate_to(self, offset: int) -> None:
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return
        if offset < self._segments.in_order[0].base_offset:
            self._truncate_fully(offset)
            return
        found = self._segments.find(offset)
        end_offset = offset if found is None else min(offset, found[1].base_offset)
        self._lower_checkpoints(end_offset, min(self.log_start_offset, end_offset))
        for later in reversed(self._segments.take_after(end_offset)):
            self._remove(later)
        active = self._segments.active
        active.truncate_to(found[1].position if found is not None and found[0] is active else active.size)
        safeguards.sync_file(active.file)
        self._producers.cut_to(end_offset)
        self._end_at(end_offset)
        self.leader_epochs.truncate_from_end(end_offset)

    def _truncate_fully(self, offset: int) -> None:
        start = min(offset, self.log_start_offset)
        self._lower_checkpoints(start, start)
        self._begin_segments_at(offset)
        self.log_start_offset = offset
        self._end_at(offset)
        # Before anything is written here: otherwise recovery would take the missing first segments for data loss.
        self._durability.sync_identity()
        self._persist_checkpoints()

    def _begin_segments_at(self, offset: int) -> None:
        for segment in reversed(self._segments.in_order):
            self._remove(segment)
        self._expired.rename()
        created_ms = self._segments.active.created_ms
        self._segments.replace_all(Segment.create(self._folder, offset, self._config, created_ms))
        self.leader_epochs.clear()
        self._producers.clear()

    def _lower_checkpoints(self, end_offset: int, log_start: int) -> None:
        """Durably, before anything is removed: after a crash no recovery point may lie above rewritten records."""
        lowered = self._durability.lower(end_offset, self._segments.since(end_offset)[0].base_offset)
        if self.cleaned_until is not None:
            cleaned_until = safeguards.cleaned_after_truncation(self.cleaned_until, end_offset)
            lowered = lowered or cleaned_until < self.cleaned_until
            self.cleaned_until = cleaned_until
        if lowered or log_start < self.log_start_offset or self._expired.on_disk:
            self.log_start_offset = log_start
            self._persist_checkpoints()

    def _end_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self._written_epoch = -1
        safeguards.sync_names(self._folder.disk, self._folder.path)

    def _remove(self, segment: Segment) -> None:
        segment.close()
        for name in reversed(segment.file_names()):
            self._folder.remove(name)
