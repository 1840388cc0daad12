"""An internal partition in memory, led in one epoch: the test moves its high watermark."""

from __future__ import annotations

from odradek.base.errors import ErrorCode, KafkaError
from odradek.protocol.batch import CONTROL, TRANSACTIONAL, encode_batch, iter_batches
from odradek.protocol.control_records import ControlType, EndTxnMarker, encode_control_key, encode_control_value
from odradek.protocol.records import Record


class Batches:
    """What `Leadership.read` returns."""

    def __init__(self, batches: bytes) -> None:
        self._batches = batches

    def read(self) -> bytes:
        return self._batches

    def release(self) -> None: ...


class MemoryPartition:
    log_start_offset = 0

    def __init__(self, leader_epoch: int = 0) -> None:
        self.leader_epoch = leader_epoch
        self.is_current = True
        self.batches = bytearray()
        self.end = 0
        self.high_watermark = 0
        self.refusal = ErrorCode.NONE
        self.batch_bytes_max = 1_048_588  # Kafka's default
        # After so many more batches, the next one is refused as if too few replicas were in sync. None: never.
        self.appends_until_refusal: int | None = None
        self.replicates_at_once = True
        self.waiting: list = []

    def append(self, batch, verification=None):
        if self.refusal:
            raise KafkaError(self.refusal)
        if len(batch) > self.batch_bytes_max:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        if self.appends_until_refusal is not None:
            if not self.appends_until_refusal:
                raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
            self.appends_until_refusal -= 1
        header = next(iter_batches(batch)).header
        batch[0:8] = self.end.to_bytes(8, "big")
        self.batches += batch
        base, self.end = self.end, self.end + header.records_count
        if self.replicates_at_once:
            self.replicate(self.end)
        return base

    def append_marker(self, marker):
        kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
        value = encode_control_value(EndTxnMarker(coordinator_epoch=marker.coordinator_epoch))
        record = Record(encode_control_key(kind), value)
        return self.append(encode_batch([record], producer_id=marker.producer_id, attributes=TRANSACTIONAL | CONTROL))

    def is_committed(self, offset):
        return offset < self.high_watermark

    def when_committed(self, offset, callback):
        if offset < self.high_watermark:
            callback(ErrorCode.NONE)
        else:
            self.waiting.append((offset, callback))

    def replicate(self, up_to):
        self.high_watermark = up_to
        due = [callback for offset, callback in self.waiting if offset < up_to]
        self.waiting = [wait for wait in self.waiting if wait[0] >= up_to]
        for callback in due:
            callback(ErrorCode.NONE)

    def lose_leadership(self):
        waiting, self.waiting = self.waiting, []
        for _, callback in waiting:
            callback(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @property
    def log_end_offset(self):
        return self.end

    def read(self, offset, _max_bytes, _end_offset):
        rest = [batch.data for batch in iter_batches(self.batches) if batch.header.last_offset >= offset]
        return Batches(b"".join(rest)) if rest else None

    def led_in(self, epoch: int) -> MemoryPartition:
        """The same log under a new leadership. This one is over."""
        following = MemoryPartition(epoch)
        following.batches = self.batches
        following.end = following.high_watermark = self.end
        self.is_current = False
        self.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.lose_leadership()
        return following
