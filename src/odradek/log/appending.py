"""Appending: batches of clients, of the broker itself, and of a follower's leader."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import ByteSource
from odradek.log import safeguards, validation
from odradek.log.appended import Appended
from odradek.log.content import Content
from odradek.log.markers import replay_control
from odradek.log.producer import WrittenBatch
from odradek.log.producers import Producers
from odradek.log.rolling import Rolling
from odradek.log.segment import RELATIVE_OFFSET_MAX
from odradek.log.truncation import Truncation
from odradek.log.verification import NOT_REQUIRED, Verification
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
    BatchHeader,
    has_valid_checksum,
    iter_batches,
    stamp_append_time,
)
from odradek.protocol.compression import Codec
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.txn_marker import TxnMarker, encode_marker

NOT_FROM_CLIENTS = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
CODEC_MAX = int(max(Codec))

_new = tuple.__new__  # in every request: the constructor of a NamedTuple takes three times as long


class Appending:
    __slots__ = ("_content", "_rolling", "_truncation")

    def __init__(self, content: Content, rolling: Rolling, truncation: Truncation) -> None:
        self._content = content
        self._rolling = rolling
        self._truncation = truncation

    def as_leader(
        self, batch: memoryview, leader_epoch: int, wall_ms: int, verification: Verification | None = None
    ) -> Appended:
        """Append exactly one batch of a client. Base offset and epoch are written into its buffer.

        The records are not checked. For a compacted topic, call `validation.require_keys` first. Without
        `verification` the request has no transactional id, and transactional batches are refused.
        """
        size = len(batch)
        content = self._content
        config = content.config
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
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{content.name}: the batch does not match its checksum")
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
        if attributes & TRANSACTIONAL:
            return self._as_leader_in_transaction(batch, max_time, leader_epoch, wall_ms, append_time, verification)
        if pid < 0:
            return self._append(batch, length, delta, max_time, leader_epoch, wall_ms, append_time)
        producers = content.producers.known or content.known_producers(wall_ms)
        duplicate = producers.check(pid, pid_epoch, sequence, delta)
        if duplicate is not None:
            return self._written_before(duplicate)
        appended = self._append(batch, length, delta, max_time, leader_epoch, wall_ms, append_time)
        producers.record(pid, pid_epoch, sequence, appended.last_offset, delta, max_time)
        return appended

    def _as_leader_in_transaction(
        self,
        batch: memoryview,
        max_time: int,
        leader_epoch: int,
        wall_ms: int,
        append_time: int,
        verification: Verification | None,
    ) -> Appended:
        """Apart from `as_leader`, so that batches outside of transactions pay for one comparison only."""
        _, length, _, _, _, _, delta, _, _, pid, pid_epoch, sequence, _ = HEADER.unpack_from(batch)
        if pid < 0:
            raise validation.refusal(batch, self._content.config)
        if verification is None:
            raise validation.without_transactional_id()
        producers = self._content.known_producers(wall_ms)
        duplicate = producers.check_transactional(pid, pid_epoch, sequence, delta, verification)
        if duplicate is not None:
            return self._written_before(duplicate)
        appended = self._append(batch, length, delta, max_time, leader_epoch, wall_ms, append_time)
        producers.record_transactional(pid, pid_epoch, sequence, appended.last_offset, delta, max_time)
        return appended

    def _written_before(self, duplicate: WrittenBatch) -> Appended:
        append_time = duplicate.timestamp if self._content.config.stamps_append_time else -1
        return self._appended(duplicate.first_offset, duplicate.last_offset, append_time, duplicate=True)

    def trusted(
        self, batch: bytearray, leader_epoch: int, wall_ms: int, verification: Verification = NOT_REQUIRED
    ) -> Appended:
        """Append one batch of the broker itself: of a coordinator, or of the metadata log. No client checks apply.

        A coordinator writes a transactional batch on behalf of a client, whose transaction is verified.
        """
        _, length, _, _, _, attributes, delta, _, max_time, pid, pid_epoch, sequence, _ = HEADER.unpack_from(batch)
        # Before the write: the producer state restored from the log must not include this batch.
        producers = self._content.known_producers(wall_ms) if pid >= 0 else None
        transactional = attributes & TRANSACTIONAL
        if producers is not None and transactional:
            producers.check_of_coordinator(pid, pid_epoch, verification)
        appended = self._append(batch, length, delta, max_time, leader_epoch, wall_ms, -1)
        if producers is not None:
            record = producers.record_transactional if transactional else producers.record
            record(pid, pid_epoch, sequence, appended.last_offset, delta, max_time)
        return appended

    def marker(self, marker: TxnMarker, leader_epoch: int, wall_ms: int) -> Appended:
        """Append the end of a transaction."""
        content = self._content
        producers = content.known_producers(wall_ms)
        producers.check_marker(marker)
        batch = encode_marker(marker, wall_ms)
        appended = self._append(batch, len(batch) - LOG_OVERHEAD, 0, wall_ms, leader_epoch, wall_ms, -1)
        content.note_aborted(producers.end_transaction(marker, appended.last_offset, wall_ms))
        return appended

    def as_follower(self, batches: memoryview, wall_ms: int) -> None:
        """Append whole batches from the leader, with its offsets and epochs. An incomplete last batch is ignored."""
        content = self._content
        try:
            for header, data in iter_batches(batches):
                if not has_valid_checksum(data):
                    raise KafkaError(
                        ErrorCode.CORRUPT_MESSAGE, f"{content.name}: wrong checksum at {header.base_offset}"
                    )
                if header.base_offset < content.log_end_offset:
                    if not content.log_start_offset == content.log_end_offset <= header.last_offset:
                        raise KafkaError(
                            ErrorCode.OFFSET_OUT_OF_RANGE,
                            f"{content.name} ends at {content.log_end_offset}, "
                            f"the leader sent offset {header.base_offset}",
                        )
                    self._truncation.begin_inside(header.base_offset, len(data))
                elif header.base_offset > content.log_end_offset:
                    self._skip_to(header.base_offset, header.last_offset, wall_ms)
                if header.leader_epoch >= 0:
                    self._note_epoch(header.leader_epoch, max(header.base_offset, content.log_start_offset))
                # Before the write: the producer state restored from the log must not include this batch.
                producers = content.known_producers(wall_ms) if header.producer_id >= 0 else None
                self._write(data, header.last_offset, header.max_timestamp, wall_ms)
                if producers is not None:
                    self._replay(producers, header, data)
        except MalformedRecords as broken:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{content.name}: {broken}") from broken

    def _replay(self, producers: Producers, header: BatchHeader, batch: memoryview) -> None:
        """The leader has checked this batch."""
        if header.is_control:
            self._content.note_aborted(replay_control(producers, header, batch))
            return
        record = producers.record_transactional if header.is_transactional else producers.record
        record(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_offset,
            header.last_offset_delta,
            header.max_timestamp,
        )

    def begin_epoch(self, leader_epoch: int) -> None:
        """This replica leads now. Its first record of this epoch, if there is one, will be at the log end."""
        self._note_epoch(leader_epoch, self._content.log_end_offset)

    def _note_epoch(self, leader_epoch: int, offset: int) -> None:
        self._content.leader_epochs.assign(leader_epoch, offset)
        self._content.written_epoch = leader_epoch

    def _skip_to(self, offset: int, last_offset: int, wall_ms: int) -> None:
        """The next batch of the leader begins at `offset`: compaction removed the records before it."""
        content = self._content
        if content.cleaned_until is None:
            content.cleaned_until = 0
            try:
                content.persist_checkpoints()  # without it, recovery after a crash would take the gap for data loss
            except OSError as broken:
                content.cleaned_until = None
                raise content.fail(broken) from broken
        if last_offset - content.log_end_offset > RELATIVE_OFFSET_MAX:
            # A segment that begins at the log end could not hold such a large relative offset.
            content.log_end_offset = offset
            with content.failing():
                self._rolling.roll_at(offset, wall_ms)

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
        content = self._content
        offset = content.log_end_offset
        if leader_epoch != content.written_epoch:
            self._note_epoch(leader_epoch, offset)
        OFFSET_LENGTH_EPOCH.pack_into(batch, 0, offset, length, leader_epoch)
        self._write(batch, offset + delta, max_time, wall_ms)
        return self._appended(offset, offset + delta, append_time, duplicate=False)

    def _appended(self, base_offset: int, last_offset: int, append_time: int, *, duplicate: bool) -> Appended:
        content = self._content
        needs_sync = content.log_end_offset - content.durability.recovery_point >= content.config.flush_messages
        return _new(Appended, (base_offset, last_offset, append_time, content.log_start_offset, duplicate, needs_sync))

    def _write(self, batch: ByteSource, last_offset: int, max_time: int, wall_ms: int) -> None:
        content = self._content
        if content.failure is not None:
            content.refuse_if_offline()
        segment = content.segments.active
        if (
            segment.size + len(batch) > segment.roll_bytes
            or max_time > segment.roll_timestamp
            or wall_ms > segment.roll_wall_ms
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        ):
            segment = self._rolling.make_room(len(batch), last_offset, max_time, wall_ms)
        try:
            indexed = segment.write(batch, last_offset, max_time)
        except OSError as broken:
            raise content.fail(broken) from broken
        content.log_end_offset = last_offset + 1
        if segment.size == len(batch):
            segment.arm(content.config, self._rolling.jitter_ms)
        elif indexed and segment.indexes_full(content.config.segment_index_bytes):
            segment.roll_bytes = 0
