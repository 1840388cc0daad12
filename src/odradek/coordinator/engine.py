"""One replicated state machine on one internal partition: load, write, wait for the high watermark, answer.

The partition's log is the truth. A shard turns requests into changes. The engine appends them as one batch, or as
several if one would be larger than the topic accepts. It replays each batch into memory at once, and runs the follow-up
when the high watermark has passed the last one. Changes that could not be appended are not replayed. So what
`Effects.write` changes is in memory only if it is in the log, also when the follow-up gets an error after the first of
several batches. What `Effects.store` writes is in memory before that, and the follow-up takes it back after an error.
When leadership moves, all memory is dropped.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Generic, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_PRODUCER, Offset, ProducerId
from odradek.base.invariants import invariant
from odradek.coordinator.batching import fitting
from odradek.coordinator.effects import Append, Effects, Now, Producer
from odradek.coordinator.latest_records import LatestRecords, StoredMarker, StoredRecord
from odradek.coordinator.ports import PartitionWriter
from odradek.coordinator.shard import Shard
from odradek.metadata.image import ClusterImage
from odradek.protocol.batch import TRANSACTIONAL, encode_batch
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.records import Record

log = logging.getLogger(__name__)

# Records replayed, or only looked at, between two turns of the event loop: about a millisecond of work.
RECORDS_PER_SLICE = 100
RECORDS_PER_LOOK = 600


class Phase(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


# The error that the coordinator returns for a failed append to its log.
_AS_COORDINATOR = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

S = TypeVar("S", bound=Shard)
Settled = Callable[[ErrorCode], None]


class Engine(Generic[S]):
    __slots__ = (
        "_appending",
        "_awaited",
        "_commit_timeout_ms",
        "_heard",
        "_parked",
        "_writer",
        "phase",
        "shard",
        "written_up_to",
    )

    def __init__(self, shard: S, writer: PartitionWriter, commit_timeout_ms: int) -> None:
        self.phase = Phase.LOADING
        self.shard = shard
        self._writer = writer
        self._commit_timeout_ms = commit_timeout_ms
        # The offset after the last batch replayed or written.
        self.written_up_to = Offset(0)
        # In log order: the offset to be committed, the deadline, the callback.
        self._parked: deque[tuple[Offset, int, Settled]] = deque()
        # The partition calls back for offsets up to this one: committed, or will never be.
        self._awaited = Offset(-1)
        # During an append: what the partition has called back with. A follow-up may append, and must not be replayed
        # before the changes of this append.
        self._appending = False
        self._heard: list[tuple[Offset, ErrorCode]] = []

    def load(self, batches: bytes) -> Iterator[None]:
        """Replays a part of the log. Yields after each slice, so that the caller can let other tasks run."""
        invariant(self.phase is Phase.LOADING, f"an engine that is {self.phase.value} loads nothing")
        latest = LatestRecords(batches)
        while latest.look(RECORDS_PER_LOOK):
            yield
        for replayed, stored in enumerate(latest, 1):
            if isinstance(stored, StoredMarker):
                self.shard.replay_marker(stored.producer_id, stored.committed, stored.offset)
            else:
                self._replay_stored(stored)
            if replayed % RECORDS_PER_SLICE == 0:
                yield
        if latest.ends:
            self.written_up_to = Offset(latest.ends[-1])
        for end in reversed(latest.ends):
            if self._writer.is_committed(Offset(end - 1)):
                self.shard.commit(Offset(end))
                break

    def _replay_stored(self, stored: StoredRecord) -> None:
        record = stored.record
        try:
            change = self.shard.decode(record.key or b"", record.value)
        except MalformedMessage as unreadable:
            # A later version or another program wrote it. The rest of this partition must still load.
            log.warning("record at offset %d is skipped: %s", record.offset, unreadable)
            return
        self.shard.replay(change, Offset(record.offset), stored.producer_id)

    def finish_loading(self, now: Now, image: ClusterImage) -> Effects:
        invariant(self.phase is Phase.LOADING, f"an engine that is {self.phase.value} has not been loading")
        self.phase = Phase.ACTIVE
        if self.written_up_to > 0:
            self._when_committed(Offset(self.written_up_to - 1))
        return self.shard.loaded(now, image)

    def is_closed(self) -> bool:
        return self.phase is Phase.CLOSED

    def check_active(self) -> None:
        if self.phase is Phase.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.phase is Phase.CLOSED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def write(self, append: Append, now: Now, settled: Settled) -> None:
        """`settled` is called exactly once: committed, failed, timed out, or the leadership is gone."""
        before = self.written_up_to
        refused = self._appended(append, now)
        heard, self._heard = self._heard, []
        for news in heard:
            self._committed(*news)
        if refused:
            if self.written_up_to > before:
                # Some of its batches are in the log: readers must see them once they are committed.
                self._when_committed(Offset(self.written_up_to - 1))
            settled(refused)
            return
        last = Offset(self.written_up_to - 1)
        if self._writer.is_committed(last):
            self._committed(last, ErrorCode.NONE)
            settled(ErrorCode.NONE)
        else:
            self._park(now, settled)

    def _appended(self, append: Append, now: Now) -> ErrorCode:
        invariant(not self._appending, "an append is under way")
        self._appending = True
        try:
            self._append(append, now)
        except KafkaError as refusal:
            log.warning("%d changes were not appended: %s", len(append.changes) or 1, refusal)
            return _AS_COORDINATOR.get(refusal.code, refusal.code)
        except OSError as broken:  # raised before the log wrote anything
            log.warning("%d changes were not appended: %s", len(append.changes) or 1, broken)
            return _AS_COORDINATOR[ErrorCode.KAFKA_STORAGE_ERROR]
        finally:
            self._appending = False
        return ErrorCode.NONE

    def _append(self, append: Append, now: Now) -> None:
        marker = append.marker
        if marker is not None:
            at = self._writer.append_marker(marker)
            self.written_up_to = Offset(at + 1)
            self.shard.replay_marker(ProducerId(marker.producer_id), marker.committed, at)
            return
        producer = append.producer
        producer_id = NO_PRODUCER if producer is None else ProducerId(producer.producer_id)
        replayed = iter(append.changes if append.replay else ())
        records = [Record(*self.shard.encode(change), timestamp=now.wall_ms) for change in append.changes]
        for batch in fitting(records, self._writer.batch_bytes_max):
            base = self._append_batch(batch, producer)
            self.written_up_to = Offset(base + len(batch))
            for offset, change in zip(range(base, base + len(batch)), replayed, strict=False):
                self.shard.replay(change, Offset(offset), producer_id)

    def _append_batch(self, records: Sequence[Record], producer: Producer | None) -> Offset:
        if producer is None:
            return self._writer.append(encode_batch(records))
        batch = encode_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            attributes=TRANSACTIONAL,
        )
        return self._writer.append(batch, producer.verification)

    def when_all_committed(self, now: Now, settled: Settled) -> None:
        """For a reader that accepts nothing pending: waits until all that is in the log now is committed."""
        if self.written_up_to == 0 or self._writer.is_committed(Offset(self.written_up_to - 1)):
            settled(ErrorCode.NONE)
        else:
            self._park(now, settled)

    def next_deadline(self) -> int | None:
        return self._parked[0][1] if self._parked else None

    def give_up_waiting(self, now: Now) -> None:
        """The changes stay in the log and in memory; only their writers stop waiting, and may try again."""
        while self._parked and self._parked[0][1] <= now.monotonic_ms:
            _, _, settled = self._parked.popleft()
            settled(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def unload(self, now: Now) -> Effects:
        self.phase = Phase.CLOSED
        self._fail_parked(ErrorCode.NOT_COORDINATOR)
        return self.shard.unload(now)

    def _park(self, now: Now, settled: Settled) -> None:
        last = Offset(self.written_up_to - 1)
        self._parked.append((last, now.monotonic_ms + self._commit_timeout_ms, settled))
        self._when_committed(last)

    def _when_committed(self, last: Offset) -> None:
        # One callback per offset, not per request: otherwise every retry after a timeout would add one.
        if last <= self._awaited:
            return
        self._awaited = last
        self._writer.when_committed(last, lambda error: self._committed(last, error))

    def _committed(self, last: Offset, error: ErrorCode) -> None:
        if self.phase is Phase.CLOSED:
            return
        if self._appending:
            self._heard.append((last, error))
            return
        if error:
            self._awaited = Offset(-1)
            self._fail_parked(_AS_COORDINATOR.get(error, error))
            return
        self.shard.commit(Offset(last + 1))
        while self._parked and self._parked[0][0] <= last:
            _, _, settled = self._parked.popleft()
            settled(ErrorCode.NONE)

    def _fail_parked(self, error: ErrorCode) -> None:
        parked, self._parked = self._parked, deque()
        for _, _, settled in parked:
            settled(error)
