"""What a log remembers of one producer: its epoch, its last five batches, and its open transaction."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from odradek.protocol.batch import NO_SEQUENCE, BatchHeader

BATCHES_REMEMBERED = 5
SEQUENCE_MAX = 2**31 - 1
NO_TRANSACTION = -1


def sequence_after(sequence: int, steps: int) -> int:
    """Sequence numbers wrap from 2^31 - 1 to 0."""
    return (sequence + steps) & SEQUENCE_MAX


class WrittenBatch(NamedTuple):
    last_sequence: int  # -1 for a batch of a coordinator
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
    """The last committed batch of a producer: it determines the next sequence and the epoch after any truncation."""

    producer_epoch: int
    last_sequence: int
    last_offset: int = -1  # known if the batch has no sequence
    is_marker: bool = False

    def may_be(self, header: BatchHeader) -> bool:
        if header.producer_epoch != self.producer_epoch or header.is_control != self.is_marker:
            return False
        if self.is_marker:
            return True
        if self.last_sequence == NO_SEQUENCE:
            return header.last_offset == self.last_offset
        return sequence_after(header.base_sequence, header.last_offset_delta) == self.last_sequence


class Producer:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "marker_offset",
        "next_sequence",
        "transaction_start",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        # Of this epoch only.
        self.batches: deque[WrittenBatch] = deque(maxlen=BATCHES_REMEMBERED)
        self.next_sequence = 0
        self.last_timestamp = -1
        self.coordinator_epoch = -1  # of its last marker
        self.marker_offset = -1  # of its last marker, or larger if it was read from a snapshot
        self.transaction_start = NO_TRANSACTION  # the first offset of its open transaction

    def add(self, epoch: int, batch: WrittenBatch) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
        self.batches.append(batch)
        self.next_sequence = sequence_after(batch.last_sequence, 1)
        self.last_timestamp = batch.timestamp

    def end_transaction(self, epoch: int, coordinator_epoch: int, marker_offset: int, timestamp: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0
        self.coordinator_epoch = coordinator_epoch
        self.marker_offset = marker_offset
        self.last_timestamp = timestamp
        self.transaction_start = NO_TRANSACTION

    def last_batch(self, end_offset: int) -> LastBatch | None:
        """The last batch before `end_offset`. None when it may be any batch."""
        for batch in reversed(self.batches):
            if batch.last_offset < end_offset:
                return LastBatch(self.epoch, batch.last_sequence, batch.last_offset)
        if not self.batches:
            committed = self.marker_offset < end_offset
            return LastBatch(self.epoch, NO_SEQUENCE, is_marker=True) if committed else None
        if self.batches[0].last_sequence == NO_SEQUENCE:
            return None
        # No producer has more batches in flight than are remembered.
        first_sequence = self.batches[0].first_sequence
        return LastBatch(self.epoch, first_sequence - 1) if first_sequence else None

    def duplicate_of(self, first_sequence: int, last_sequence: int) -> WrittenBatch | None:
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None
