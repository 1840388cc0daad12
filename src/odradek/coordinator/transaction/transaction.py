"""One transactional id: its producer, and its current or last transaction. Every transition makes a new object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from odradek.base import limits
from odradek.base.ids import NO_PRODUCER, ProducerId, TopicPartition
from odradek.base.invariants import invariant
from odradek.coordinator.transaction import safeguards
from odradek.coordinator.transaction.states import Happening, State, next_state

NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
# The first level of transaction.version at which each transaction has an epoch of its own (KIP-890).
EPOCH_PER_TRANSACTION = 2


class ProducerIdentity(NamedTuple):
    producer_id: ProducerId
    producer_epoch: int


def is_exhausted(epoch: int) -> bool:
    """Clients never get the largest epoch, so that the coordinator can always fence them."""
    return epoch >= limits.producer_epoch_max - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    transactional_id: str
    producer_id: ProducerId
    # While a producer uses up its epochs, it has two ids: the one before the last transition, and the one to come.
    previous_producer_id: ProducerId = NO_PRODUCER
    next_producer_id: ProducerId = NO_PRODUCER
    # Never decreases for one producer id.
    producer_epoch: int
    # The epoch that the current one has replaced at the producer's own request. Not in the log.
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: State
    # Sorted. Empty unless the transaction is open.
    partitions: tuple[TopicPartition, ...] = ()
    # Wall clock, when the first partition joined.
    started_ms: int = NO_TIMESTAMP
    updated_ms: int
    # The transaction.version that the producer follows, from its last request.
    client_version: int = 0

    @property
    def producer(self) -> ProducerIdentity:
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def successor(self) -> ProducerIdentity:
        """The producer after this transaction is completed."""
        if self.next_producer_id == NO_PRODUCER:
            return self.producer
        return ProducerIdentity(self.next_producer_id, 0)

    @property
    def commits(self) -> bool:
        invariant(self.state.is_prepared, f"{self.transactional_id} is {self.state.value}")
        return self.state is State.PREPARE_COMMIT

    def initialized(self, timeout_ms: int, *, epoch: int, last_epoch: int, now_ms: int) -> Transaction:
        return self._moved(
            Happening.INITIALIZED,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=(),
            started_ms=NO_TIMESTAMP,
            updated_ms=now_ms,
        )

    def rotated(self, producer_id: ProducerId, timeout_ms: int, *, last_epoch: int, now_ms: int) -> Transaction:
        """The epochs of its producer id are used up: it gets another id."""
        initialized = self.initialized(timeout_ms, epoch=0, last_epoch=last_epoch, now_ms=now_ms)
        return replace(initialized, producer_id=producer_id)

    def joined_by(self, partitions: Iterable[TopicPartition], client_version: int, now_ms: int) -> Transaction:
        return self._moved(
            Happening.JOINED,
            partitions=tuple(sorted({*self.partitions, *partitions})),
            started_ms=now_ms if self.state.is_idle else self.started_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def ended(
        self, happening: Happening, client_version: int, next_producer_id: ProducerId, now_ms: int
    ) -> Transaction:
        bumped = client_version >= EPOCH_PER_TRANSACTION and safeguards.bumps_epoch_with_each_transaction()
        return self._moved(
            happening,
            producer_epoch=self._next_epoch() if bumped else self.producer_epoch,
            last_producer_epoch=self.producer_epoch if bumped else self.last_producer_epoch,
            next_producer_id=next_producer_id,
            started_ms=now_ms if self.state.is_idle else self.started_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self, cluster_version: int, next_producer_id: ProducerId, now_ms: int) -> Transaction:
        """The coordinator itself aborts: the producer was replaced, or the transaction took too long.

        With the higher epoch of its marker, the producer can write nothing more to these partitions.
        """
        ended = self.ended(Happening.ABORT, cluster_version, next_producer_id, now_ms)
        if cluster_version >= EPOCH_PER_TRANSACTION:
            return ended
        return replace(ended, producer_epoch=self._next_epoch(), last_producer_epoch=NO_PRODUCER_EPOCH)

    def completed(self, now_ms: int) -> Transaction:
        following = self.successor
        return self._moved(
            Happening.COMPLETED,
            producer_id=following.producer_id,
            producer_epoch=following.producer_epoch,
            next_producer_id=NO_PRODUCER,
            partitions=(),
            updated_ms=now_ms,
        )

    def _next_epoch(self) -> int:
        return min(self.producer_epoch + 1, limits.producer_epoch_max)

    def _moved(self, happening: Happening, **changes: Any) -> Transaction:  # noqa: ANN401
        state = next_state(self.state, happening)
        return replace(self, state=state, previous_producer_id=self.producer_id, **changes)
