"""The state of each idempotent producer: its epoch and its last five batches.

A retry of one of those five batches is answered with the offset of the first append. A sequence gap, or an epoch older
than the newest one seen, is refused. An unknown producer may begin with any sequence: its state was deleted or expired.
"""

from __future__ import annotations

from collections import deque
from struct import Struct, error
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.log import safeguards
from odradek.protocol.checksum import crc32c

BATCHES_REMEMBERED = 5
SEQUENCE_MAX = 2**31 - 1

# version, checksum of all that follows it, number of entries
SNAPSHOT_HEAD = Struct(">hIi")
SNAPSHOT_VERSION = 1
SNAPSHOT_CRC_START = 6
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the open
# transaction
SNAPSHOT_ENTRY = Struct(">qhiqiqiq")


def sequence_after(sequence: int, steps: int) -> int:
    """Sequence numbers wrap from 2^31 - 1 to 0."""
    return (sequence + steps) & SEQUENCE_MAX


class SnapshotBroken(ValueError):
    """A producer snapshot is broken. Use an older one, or the log itself."""


class WrittenBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return sequence_after(self.last_sequence, -self.offset_delta)


class LastBatch(NamedTuple):
    """The last committed batch of a producer: it determines the next sequence after any truncation."""

    producer_epoch: int
    last_sequence: int


class Producer:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "next_sequence", "transaction_start")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[WrittenBatch] = deque(maxlen=BATCHES_REMEMBERED)
        self.next_sequence = 0
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.transaction_start = -1

    def add(self, epoch: int, batch: WrittenBatch) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
        self.batches.append(batch)
        self.next_sequence = sequence_after(batch.last_sequence, 1)
        self.last_timestamp = batch.timestamp

    def last_batch(self, end_offset: int) -> LastBatch | None:
        for batch in reversed(self.batches):
            if batch.last_offset < end_offset:
                return LastBatch(self.epoch, batch.last_sequence)
        # No producer has more batches in flight than are remembered.
        first_sequence = self.batches[0].first_sequence
        return LastBatch(self.epoch, first_sequence - 1) if first_sequence else None

    def duplicate_of(self, first_sequence: int, last_sequence: int) -> WrittenBatch | None:
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None


class Producers:
    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}

    def check(self, producer_id: int, epoch: int, sequence: int, offset_delta: int) -> WrittenBatch | None:
        """The earlier batch if this one is a retry, None if it is the next batch. Otherwise raises KafkaError."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            return None
        if epoch == producer.epoch:
            expected = producer.next_sequence
            if sequence == expected:
                return None
            if safeguards.recognises_duplicates():
                duplicate = producer.duplicate_of(sequence, sequence_after(sequence, offset_delta))
                if duplicate is not None:
                    return duplicate
        else:
            if epoch < producer.epoch and safeguards.fences_old_producer_epochs():
                raise KafkaError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"producer {producer_id} sent epoch {epoch}, but epoch {producer.epoch} has replaced it",
                )
            expected = 0
        if not safeguards.expects_sequence(expected, sequence):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} (epoch {epoch}) sent sequence {sequence}, expected {expected}",
            )
        return None

    def record(
        self, producer_id: int, epoch: int, sequence: int, last_offset: int, offset_delta: int, timestamp: int
    ) -> None:
        """Record a batch that was written."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer(epoch)
        last_sequence = sequence_after(sequence, offset_delta)
        producer.add(epoch, WrittenBatch(last_sequence, last_offset, offset_delta, timestamp))

    def record_earlier(
        self, producer_id: int, epoch: int, sequence: int, last_offset: int, offset_delta: int, timestamp: int
    ) -> None:
        """Record a batch before the one in the snapshot: its producer may retry it, too. Call in log order."""
        producer = self.by_id.get(producer_id)
        if producer is None or epoch != producer.epoch or not producer.batches:
            return
        newest = producer.batches[-1]
        if last_offset < newest.last_offset:
            producer.batches.pop()
            last_sequence = sequence_after(sequence, offset_delta)
            producer.batches.append(WrittenBatch(last_sequence, last_offset, offset_delta, timestamp))
            producer.batches.append(newest)

    def last_batches(self, end_offset: int) -> dict[int, LastBatch | None]:
        """The last batch of each producer before `end_offset`; None when it may be any batch of an older epoch."""
        return {
            producer_id: producer.last_batch(end_offset)
            for producer_id, producer in self.by_id.items()
            if producer.batches
        }

    def expire(self, wall_ms: int, expiration_ms: int) -> None:
        idle = [
            producer_id
            for producer_id, producer in self.by_id.items()
            if producer.transaction_start < 0 and wall_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self.by_id[producer_id]

    def encode(self) -> bytes:
        entries = b"".join(_entry(producer_id, producer) for producer_id, producer in self.by_id.items())
        covered = len(self.by_id).to_bytes(4, "big") + entries
        return SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, crc32c(covered), len(self.by_id)) + entries

    @classmethod
    def decode(cls, content: bytes) -> Producers:
        try:
            version, checksum, count = SNAPSHOT_HEAD.unpack_from(content)
        except error:
            raise SnapshotBroken(f"{len(content)} bytes are too few for a snapshot") from None
        if version != SNAPSHOT_VERSION:
            raise SnapshotBroken(f"it has version {version}, not {SNAPSHOT_VERSION}")
        if len(content) != SNAPSHOT_HEAD.size + count * SNAPSHOT_ENTRY.size:
            raise SnapshotBroken(f"its {len(content)} bytes do not match its count of {count} producers")
        if crc32c(content[SNAPSHOT_CRC_START:]) != checksum:
            raise SnapshotBroken("its checksum does not match")
        producers = cls()
        for entry in SNAPSHOT_ENTRY.iter_unpack(content[SNAPSHOT_HEAD.size :]):
            producers._restore(*entry)
        return producers

    def _restore(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        last_offset: int,
        offset_delta: int,
        timestamp: int,
        coordinator_epoch: int,
        transaction_start: int,
    ) -> None:
        producer = self.by_id[producer_id] = Producer(epoch)
        if last_offset >= 0:
            producer.add(epoch, WrittenBatch(last_sequence, last_offset, offset_delta, timestamp))
        producer.last_timestamp = timestamp
        producer.coordinator_epoch = coordinator_epoch
        producer.transaction_start = transaction_start


_NEVER_WROTE = WrittenBatch(-1, -1, 0, -1)


def _entry(producer_id: int, producer: Producer) -> bytes:
    last = producer.batches[-1] if producer.batches else _NEVER_WROTE
    return SNAPSHOT_ENTRY.pack(
        producer_id,
        producer.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_start,
    )
