"""How EndTxn is answered: refused, done already, or the transaction begins to end."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.base import limits
from odradek.base.errors import ErrorCode
from odradek.coordinator.transaction import safeguards
from odradek.coordinator.transaction.states import END_ANSWERS, END_ANSWERS_BY_EPOCH, Happening, State
from odradek.coordinator.transaction.transaction import (
    EPOCH_PER_TRANSACTION,
    ProducerIdentity,
    Transaction,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    transactional_id: str
    producer: ProducerIdentity
    commits: bool
    # 2: the epoch belongs to one transaction. 0 for clients that keep their epoch.
    client_version: int

    @property
    def happening(self) -> Happening:
        return Happening.COMMIT if self.commits else Happening.ABORT


def answer(transaction: Transaction | None, ending: Ending) -> ErrorCode | None:
    """None: the transaction begins to end."""
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if ending.client_version >= EPOCH_PER_TRANSACTION:
        return _answer_by_epoch(transaction, ending)
    if ending.producer.producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not safeguards.is_current(ending.producer.producer_epoch, transaction.producer_epoch):
        return ErrorCode.PRODUCER_FENCED
    return END_ANSWERS.get((transaction.state, ending.commits))


def _answer_by_epoch(transaction: Transaction, ending: Ending) -> ErrorCode | None:
    producer_id, epoch = ending.producer
    state = transaction.state
    if state.is_prepared and ending.producer == transaction.successor:
        # The producer is ahead: it ends the next transaction already, in which no partition has joined.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    # A retry with the last epoch of the producer id that this one has replaced.
    rotated = (
        transaction.producer_id != producer_id == transaction.previous_producer_id
        and epoch == limits.producer_epoch_max - 1
        and transaction.producer_epoch == 0
        and state.is_idle
    )
    if producer_id != transaction.producer_id and not rotated:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_retry = rotated or transaction.producer_epoch == epoch + 1
    is_first = safeguards.is_current(epoch, transaction.producer_epoch) and not state.is_prepared
    if not is_first and not (is_retry and _can_be_retried(transaction)):
        return ErrorCode.PRODUCER_FENCED
    return END_ANSWERS_BY_EPOCH.get((state, ending.commits, is_retry))


def _can_be_retried(transaction: Transaction) -> bool:
    """In the other states, an epoch that is one too low belongs to a producer that was replaced."""
    return transaction.state not in (State.EMPTY, State.ONGOING)
