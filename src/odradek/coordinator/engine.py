"""One replicated state machine on one internal partition: load, write, wait for the high watermark, answer.

The partition's log is the truth. A state machine turns requests into changes. The engine appends them as one batch,
replays them into memory at once, and runs the follow-up when the high watermark has passed them. Changes that could
not be appended are not replayed, so memory is never ahead of the log. When leadership moves, all memory is dropped.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import Offset
from odradek.base.invariants import invariant
from odradek.coordinator.effects import Append, Effects, Now
from odradek.coordinator.latest_records import LatestRecords
from odradek.protocol.batch import encode_batch
from odradek.protocol.malformed import MalformedMessage
from odradek.protocol.records import Record

log = logging.getLogger(__name__)

# Records replayed, or only looked at, between two turns of the event loop: about a millisecond of work.
RECORDS_PER_SLICE = 100
RECORDS_PER_LOOK = 600


class PartitionWriter(Protocol):
    """The engine's one door to the log, bound to its partition and to one leader epoch."""

    def append(self, batch: bytearray) -> Offset:
        """The base offset. KafkaError when nothing was written."""

    def is_committed(self, offset: Offset) -> bool: ...

    def when_committed(self, offset: Offset, callback: Callable[[ErrorCode], None]) -> None:
        """Calls back once the high watermark has passed `offset` (at once if it has), or with the reason why not."""


class ReplicatedState(Protocol):
    def encode(self, change: Any) -> tuple[bytes, bytes | None]: ...  # noqa: ANN401

    def decode(self, key: bytes, value: bytes | None) -> Any: ...  # noqa: ANN401

    def replay(self, change: Any, at: Offset) -> None: ...  # noqa: ANN401

    def commit(self, high_watermark: Offset) -> None:
        """Everything below is committed."""

    def loaded(self, now: Now) -> Effects: ...

    def unload(self, now: Now) -> Effects: ...


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

S = TypeVar("S", bound=ReplicatedState)
Settled = Callable[[ErrorCode], None]


class Engine(Generic[S]):
    __slots__ = ("_awaited", "_commit_timeout_ms", "_parked", "_writer", "phase", "state", "written_up_to")

    def __init__(self, state: S, writer: PartitionWriter, commit_timeout_ms: int) -> None:
        self.phase = Phase.LOADING
        self.state = state
        self._writer = writer
        self._commit_timeout_ms = commit_timeout_ms
        # The offset after the last batch replayed or written.
        self.written_up_to = Offset(0)
        # In log order: the offset to be committed, the deadline, the callback.
        self._parked: deque[tuple[Offset, int, Settled]] = deque()
        # The partition calls back for offsets up to this one: committed, or will never be.
        self._awaited = Offset(-1)

    def load(self, batches: bytes) -> Iterator[None]:
        """Replays the log. Yields after each slice, so that the caller can let other tasks run.

        Replays only the last record of each key, as in a compacted log: most records commit the same offsets again.
        """
        invariant(self.phase is Phase.LOADING, f"an engine that is {self.phase.value} loads nothing")
        latest = LatestRecords(batches)
        while latest.look(RECORDS_PER_LOOK):
            yield
        for replayed, record in enumerate(latest, 1):
            self._replay_stored(record.key, record.value, Offset(record.offset))
            if replayed % RECORDS_PER_SLICE == 0:
                yield
        if latest.ends:
            self.written_up_to = Offset(latest.ends[-1])
        for end in reversed(latest.ends):
            if self._writer.is_committed(Offset(end - 1)):
                self.state.commit(Offset(end))
                break

    def _replay_stored(self, key: bytes | None, value: bytes | None, at: Offset) -> None:
        try:
            change = self.state.decode(key or b"", value)
        except MalformedMessage as unreadable:
            # A later version or another program wrote it. The other groups of this partition must still load.
            log.warning("record at offset %d is skipped: %s", at, unreadable)
            return
        self.state.replay(change, at)

    def finish_loading(self, now: Now) -> Effects:
        invariant(self.phase is Phase.LOADING, f"an engine that is {self.phase.value} has not been loading")
        self.phase = Phase.ACTIVE
        if self.written_up_to > 0:
            self._when_committed(Offset(self.written_up_to - 1))
        return self.state.loaded(now)

    def is_closed(self) -> bool:
        return self.phase is Phase.CLOSED

    def check_active(self) -> None:
        if self.phase is Phase.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if self.phase is Phase.CLOSED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def write(self, append: Append, now: Now, settled: Settled) -> None:
        """`settled` is called exactly once: committed, failed, timed out, or the leadership is gone."""
        records = [Record(*self.state.encode(change), timestamp=now.wall_ms) for change in append.changes]
        try:
            base = self._writer.append(encode_batch(records))
        except KafkaError as refusal:
            log.warning("%d changes were not appended: %s", len(records), refusal)
            settled(_AS_COORDINATOR.get(refusal.code, refusal.code))
            return
        self.written_up_to = Offset(base + len(records))
        if append.replay:
            self._replay_written(append.changes, base)
        last = Offset(self.written_up_to - 1)
        if self._writer.is_committed(last):
            self._committed(last, ErrorCode.NONE)
            settled(ErrorCode.NONE)
        else:
            self._park(now, settled)

    def _replay_written(self, changes: Sequence[Any], base: Offset) -> None:
        for delta, change in enumerate(changes):
            self.state.replay(change, Offset(base + delta))

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
        return self.state.unload(now)

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
        if error:
            self._awaited = Offset(-1)
            self._fail_parked(_AS_COORDINATOR.get(error, error))
            return
        self.state.commit(Offset(last + 1))
        while self._parked and self._parked[0][0] <= last:
            _, _, settled = self._parked.popleft()
            settled(ErrorCode.NONE)

    def _fail_parked(self, error: ErrorCode) -> None:
        parked, self._parked = self._parked, deque()
        for _, _, settled in parked:
            settled(error)
