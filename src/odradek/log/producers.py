"""The state of each producer with an id, and the rules for its next batch.

A retry of one of the last five batches is answered with the offset of the first append. A sequence gap, or an epoch
older than the newest one seen, is refused. An unknown producer may begin with any sequence: its state was deleted or
expired. A producer with an open transaction writes only transactional batches until its marker.
"""

from __future__ import annotations

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.log import safeguards
from odradek.log.producer import NO_TRANSACTION, LastBatch, Producer, WrittenBatch, sequence_after
from odradek.log.transactions import AbortedTransaction, Transactions
from odradek.log.verification import OPEN_HERE, Verification
from odradek.protocol.batch import NO_SEQUENCE
from odradek.protocol.txn_marker import TxnMarker

FIRST_WITH_EPOCH_BUMPS = 2  # transaction version: each transaction has an epoch of its own


class Producers:
    __slots__ = ("by_id", "transactions", "verifications")

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        self.transactions = Transactions()
        # By producer id: what the transaction coordinator was asked and nothing was written for since.
        self.verifications: dict[int, Verification] = {}

    # --- batches

    def check(self, producer_id: int, epoch: int, sequence: int, offset_delta: int) -> WrittenBatch | None:
        """For a batch outside of transactions: the earlier batch if this one is a retry, None if it is the next batch.

        Otherwise raises KafkaError.
        """
        producer = self.by_id.get(producer_id)
        if producer is None:
            return None
        if epoch != producer.epoch or sequence != producer.next_sequence:
            duplicate = self._check_sequence(producer_id, producer, epoch, sequence, offset_delta)
            if duplicate is not None:
                return duplicate
        if producer.transaction_start >= 0:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has an open transaction here: a batch outside of it is refused",
            )
        return None

    def check_transactional(
        self, producer_id: int, epoch: int, sequence: int, offset_delta: int, verification: Verification
    ) -> WrittenBatch | None:
        """The same for a batch of a transaction."""
        producer = self.by_id.get(producer_id)
        if producer is not None and epoch == producer.epoch and safeguards.recognises_duplicates():
            duplicate = producer.duplicate_of(sequence, sequence_after(sequence, offset_delta))
            if duplicate is not None:
                return duplicate
        self._check_transaction(producer_id, epoch, verification)
        pending = self.verifications.get(producer_id)
        if pending is not None:
            self._check_verified_order(producer_id, producer, sequence, pending)
        if producer is not None:
            self._check_sequence(producer_id, producer, epoch, sequence, offset_delta)
        return None

    def check_of_coordinator(self, producer_id: int, epoch: int, verification: Verification) -> None:
        """For a batch that a coordinator writes on behalf of a transactional producer: it has no sequence."""
        self._check_transaction(producer_id, epoch, verification)

    def record(
        self, producer_id: int, epoch: int, sequence: int, last_offset: int, offset_delta: int, timestamp: int
    ) -> None:
        """Record a batch that was written."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer(epoch)
        last_sequence = sequence_after(sequence, offset_delta) if sequence >= 0 else NO_SEQUENCE
        producer.add(epoch, WrittenBatch(last_sequence, last_offset, offset_delta, timestamp))

    def record_transactional(
        self, producer_id: int, epoch: int, sequence: int, last_offset: int, offset_delta: int, timestamp: int
    ) -> None:
        """Record a batch of a transaction that was written. Its first batch opens the transaction."""
        self.record(producer_id, epoch, sequence, last_offset, offset_delta, timestamp)
        producer = self.by_id[producer_id]
        if producer.transaction_start == NO_TRANSACTION:
            producer.transaction_start = last_offset - offset_delta
            self.transactions.begin(producer.transaction_start)
        self.verifications.pop(producer_id, None)

    def record_earlier(
        self, producer_id: int, epoch: int, sequence: int, last_offset: int, offset_delta: int, timestamp: int
    ) -> None:
        """Record a batch before the one in the snapshot: its producer may retry it, too. Call in log order."""
        producer = self.by_id.get(producer_id)
        if producer is None or epoch != producer.epoch or not producer.batches or sequence < 0:
            return
        newest = producer.batches[-1]
        if last_offset < newest.last_offset:
            producer.batches.pop()
            last_sequence = sequence_after(sequence, offset_delta)
            producer.batches.append(WrittenBatch(last_sequence, last_offset, offset_delta, timestamp))
            producer.batches.append(newest)

    def _check_sequence(
        self, producer_id: int, producer: Producer, epoch: int, sequence: int, offset_delta: int
    ) -> WrittenBatch | None:
        if epoch == producer.epoch:
            expected = producer.next_sequence
            if sequence == expected:
                return None
            if safeguards.recognises_duplicates():
                duplicate = producer.duplicate_of(sequence, sequence_after(sequence, offset_delta))
                if duplicate is not None:
                    return duplicate
        else:
            self._refuse_old_epoch(producer_id, producer, epoch)
            expected = 0
        if not safeguards.expects_sequence(expected, sequence):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} (epoch {epoch}) sent sequence {sequence}, expected {expected}",
            )
        return None

    def _refuse_old_epoch(self, producer_id: int, producer: Producer, epoch: int) -> None:
        if epoch < producer.epoch and safeguards.fences_old_producer_epochs():
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} sent epoch {epoch}, but epoch {producer.epoch} has replaced it",
            )

    # --- transactions

    def has_transaction_idle_since(self, wall_ms: int) -> bool:
        """Whether the oldest open transaction has no record after that time."""
        if not self.transactions:
            return False
        oldest = self.transactions.first_open()
        return any(each.transaction_start == oldest and each.last_timestamp < wall_ms for each in self.by_id.values())

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, adds_partition: bool, wall_ms: int
    ) -> Verification:
        """What the coordinator must confirm before this batch is appended. OPEN_HERE: nothing."""
        producer = self.by_id.get(producer_id)
        if producer is not None:
            self._refuse_old_epoch(producer_id, producer, epoch)
        if self._has_open_transaction(producer_id, epoch):
            return OPEN_HERE
        verification = self.verifications.get(producer_id)
        if verification is None:
            verification = self.verifications[producer_id] = Verification(
                epoch=epoch, sequence=sequence, adds_partition=adds_partition, wall_ms=wall_ms
            )
        verification.wanted_for(epoch, sequence)
        return verification

    def _has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """A transaction of an older epoch may have ended elsewhere: only its marker is missing here."""
        producer = self.by_id.get(producer_id)
        return producer is not None and producer.transaction_start != NO_TRANSACTION and producer.epoch == epoch

    def _check_transaction(self, producer_id: int, epoch: int, verification: Verification) -> None:
        producer = self.by_id.get(producer_id)
        if producer is not None:
            self._refuse_old_epoch(producer_id, producer, epoch)
        if not self._has_open_transaction(producer_id, epoch) and not safeguards.is_verified(
            self.verifications.get(producer_id), verification
        ):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} (epoch {epoch}) has no open transaction here that its coordinator confirmed",
            )

    def _check_verified_order(
        self, producer_id: int, producer: Producer | None, sequence: int, pending: Verification
    ) -> None:
        expected = pending.lowest_sequence
        if pending.adds_partition and (producer is None or not producer.batches):
            expected = 0
        if sequence > expected and not safeguards.expects_sequence(expected, sequence):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} began its transaction here with sequence {sequence}, expected {expected}",
            )

    def check_marker(self, marker: TxnMarker) -> None:
        """Refuse the marker of an older producer epoch, or of a coordinator that has been replaced.

        With transaction version 2 the coordinator raises the epoch before it writes markers. A marker with the current
        epoch is a retry if no transaction is open: it is written again, and ends nothing. Otherwise it belongs to an
        earlier transaction, and must not end the open one.
        """
        producer = self.by_id.get(marker.producer_id)
        if producer is None:
            return
        current = producer.epoch
        if marker.transaction_version >= FIRST_WITH_EPOCH_BUMPS:
            is_retry = (
                producer.transaction_start == NO_TRANSACTION or marker.producer_epoch == limits.producer_epoch_max
            )
            is_newer = marker.producer_epoch > current or (marker.producer_epoch == current and is_retry)
        else:
            is_newer = marker.producer_epoch >= current
        if not safeguards.accepts_marker_epoch(is_newer):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of producer {marker.producer_id} has epoch {marker.producer_epoch}, "
                f"the log has seen epoch {current}",
            )
        if not safeguards.accepts_coordinator_epoch(marker.coordinator_epoch, producer.coordinator_epoch):
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a coordinator with epoch {marker.coordinator_epoch} sent a marker of producer {marker.producer_id}, "
                f"but epoch {producer.coordinator_epoch} has replaced it",
            )

    def end_transaction(self, marker: TxnMarker, offset: int, timestamp: int) -> AbortedTransaction | None:
        """Record a marker that was written. The transaction for the index if records were aborted."""
        producer = self.by_id.get(marker.producer_id)
        if producer is None:
            producer = self.by_id[marker.producer_id] = Producer(marker.producer_epoch)
        first_offset = producer.transaction_start
        producer.end_transaction(marker.producer_epoch, marker.coordinator_epoch, offset, timestamp)
        verification = self.verifications.get(marker.producer_id)
        # With transaction version 2, the next transaction may have begun: it has the epoch of this marker.
        if verification is not None and not (
            verification.adds_partition and verification.epoch == marker.producer_epoch
        ):
            del self.verifications[marker.producer_id]
        if first_offset == NO_TRANSACTION:
            return None
        self.transactions.end(first_offset, offset)
        if marker.committed:
            return None
        last_stable_offset = min(self.transactions.first_open(), offset + 1)
        return AbortedTransaction(marker.producer_id, first_offset, offset, last_stable_offset)

    def record_emptied_marker(self, producer_id: int, epoch: int, offset: int) -> None:
        """Compaction removed the record of a marker, and kept the batch for its epoch."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer(epoch)
        if epoch > producer.epoch:
            producer.end_transaction(epoch, producer.coordinator_epoch, offset, producer.last_timestamp)

    # --- all of them

    def last_batches(self, end_offset: int) -> dict[int, LastBatch | None]:
        """The last batch of each producer before `end_offset`; None when it may be any batch."""
        return {producer_id: producer.last_batch(end_offset) for producer_id, producer in self.by_id.items()}

    def expire(self, wall_ms: int, expiration_ms: int) -> None:
        idle = [
            producer_id
            for producer_id, producer in self.by_id.items()
            if producer.transaction_start == NO_TRANSACTION and wall_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self.by_id[producer_id]
        abandoned = [
            producer_id
            for producer_id, verification in self.verifications.items()
            if wall_ms - verification.started_ms >= expiration_ms
        ]
        for producer_id in abandoned:
            del self.verifications[producer_id]
