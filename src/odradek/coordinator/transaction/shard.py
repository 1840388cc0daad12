"""The transactions of one partition of `__transaction_state`: every request, answer and timer is one turn.

Decisions are made on the newest state, which is in the log. Nothing leaves this broker before that state is committed:
neither a reply nor a marker. So a new coordinator knows everything that a producer or a partition has received.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from odradek.base.errors import ErrorCode, KafkaError, error_code
from odradek.base.ids import NO_PRODUCER, BrokerId, Offset, ProducerId, TopicPartition
from odradek.base.invariants import InvariantBroken
from odradek.coordinator.due import Due
from odradek.coordinator.effects import Ask, Effects, Now, Then, TimerKey, then_nothing, then_reply
from odradek.coordinator.transaction import ending, safeguards
from odradek.coordinator.transaction.changes import TransactionStored, decode, encode
from odradek.coordinator.transaction.config import TransactionConfig
from odradek.coordinator.transaction.ending import Ending
from odradek.coordinator.transaction.markers import Markers
from odradek.coordinator.transaction.states import State
from odradek.coordinator.transaction.transaction import (
    EPOCH_PER_TRANSACTION,
    NO_PRODUCER_EPOCH,
    ProducerIdentity,
    Transaction,
    is_exhausted,
)
from odradek.coordinator.transaction.waiting import WaitingRequests
from odradek.coordinator.two_views import TwoViews
from odradek.metadata.features import transaction_version
from odradek.metadata.image import ClusterImage, ImageDelta
from odradek.monitor.instruments import Counter
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.p27_write_txn_markers import WriteTxnMarkersResponse

log = logging.getLogger(__name__)

TIMED_OUT_TIMER: TimerKey = ("timed out",)
EXPIRED_TIMER: TimerKey = ("expired",)
MARKERS_TIMER: TimerKey = ("markers",)
COMPLETION_TIMER: TimerKey = ("completion",)
RETRY_MS = 100
MARKERS_TIMEOUT_MS = 10_000
PRODUCER_ID_TIMEOUT_MS = 10_000
# The rest follows in the next turn, so that no turn takes long.
CHANGES_PER_TURN = 200
PARTITIONS_PER_TURN = 10_000
# Two-phase commit by an outside coordinator: such a transaction never times out.
NO_TIMEOUT_MS = 2**31 - 1

WRITE_TXN_MARKERS_VERSION = 2
INIT_PRODUCER_ID_VERSION = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialization:
    transactional_id: str
    timeout_ms: int
    # What the producer has, if it only wants another epoch (KIP-360).
    expected: ProducerIdentity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    transactional_id: str
    producer: ProducerIdentity
    partitions: Sequence[TopicPartition]
    client_version: int
    # Whether it may wait for the end of the previous transaction.
    waits: bool


class TransactionShard:
    __slots__ = (
        "_broker_id",
        "_config",
        "_ended",
        "_expiries",
        "_image",
        "_time_outs",
        "_timed_out",
        "_transaction_version",
        "_waiting",
        "markers",
        "transactions",
    )

    def __init__(
        self,
        config: TransactionConfig,
        broker_id: BrokerId,
        coordinator_epoch: int,
        timed_out: Counter | None = None,
    ) -> None:
        """`timed_out` counts transactions that are aborted because they took too long."""
        self._config = config
        self._broker_id = broker_id
        self.transactions: TwoViews[str, Transaction] = TwoViews()
        self._time_outs: Due[str] = Due(self._time_out_ms)
        self._expiries: Due[str] = Due(self._expiry_ms)
        self.markers = Markers(coordinator_epoch)
        self._timed_out = timed_out or Counter()
        # All their markers are written, but they could not be stored as complete.
        self._ended: dict[str, None] = {}
        self._waiting = WaitingRequests()
        self._image = ClusterImage(cluster_id="")
        self._transaction_version = 0

    @property
    def unstored_count(self) -> int:
        """Transactions with all markers that are not stored as complete yet."""
        return len(self._ended)

    def __str__(self) -> str:
        return f"{len(self.transactions.newest)} transactional ids"

    # What the engine needs

    def encode(self, change: TransactionStored) -> tuple[bytes, bytes | None]:
        return encode(change, self._transaction_version)

    decode = staticmethod(decode)

    def replay(self, change: TransactionStored, at: Offset, producer_id: ProducerId) -> None:  # noqa: ARG002
        self.transactions.put(change.transactional_id, change.transaction, at)
        self._time_outs.put(change.transactional_id)
        self._expiries.put(change.transactional_id)

    def replay_marker(self, producer_id: ProducerId, committed: bool, at: Offset) -> None:
        """Nothing in this topic is written in transactions."""

    def commit(self, high_watermark: Offset) -> None:
        self.transactions.commit(high_watermark)

    def loaded(self, now: Now, image: ClusterImage) -> Effects:
        turn = Effects(now)
        self._take_image(image)
        turn.set_timer(TIMED_OUT_TIMER, self._config.timed_out_check_interval_ms)
        turn.set_timer(EXPIRED_TIMER, self._config.expired_check_interval_ms)
        for transaction in self.transactions.newest.values():
            if safeguards.resumes(transaction.state.is_prepared):
                self.markers.add(transaction, image)
        self._go_on(turn)
        return turn

    def unload(self, now: Now) -> Effects:
        turn = Effects(now)
        self._waiting.refuse_all(turn)
        return turn

    def metadata_changed(self, now: Now, image: ClusterImage, delta: ImageDelta) -> Effects:
        turn = Effects(now)
        self._take_image(image)
        if delta.changed or delta.deleted or delta.created:
            self.markers.leaders_changed(image)
            self._go_on(turn)
        return turn

    def _take_image(self, image: ClusterImage) -> None:
        self._image = image
        self._transaction_version = transaction_version(image)

    def timer_fired(self, key: TimerKey, now: Now) -> Effects:
        turn = Effects(now)
        match key:
            case ("timed out",):
                self._abort_timed_out(turn)
            case ("expired",):
                self._expire(turn)
            case ("markers",):
                self.markers.retry(self._image)
                self._go_on(turn)
            case ("completion",):
                self._complete(turn)
            case ("waiting", transactional_id):
                transaction = self.transactions.newest.get(transactional_id)
                is_over = transaction is None or not transaction.state.is_prepared
                return self._waiting.timer_fired(transactional_id, now, is_over=is_over)
            case _:
                raise InvariantBroken(f"no timer is called {key}")
        return turn

    # InitProducerId

    def initialize(self, request: Initialization, to: object, now: Now, new_id: ProducerId = NO_PRODUCER) -> Effects:
        """Answers with the producer's id and epoch. `new_id`: for a producer that has none, or has no epochs left."""
        turn = Effects(now)

        def again(now: Now, new_id: ProducerId = NO_PRODUCER) -> Effects:
            return self.initialize(request, to, now, new_id)

        transaction = self.transactions.newest.get(request.transactional_id)
        if not 0 < request.timeout_ms <= self._config.timeout_max_ms:
            turn.reply(to, KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        elif transaction is not None and not _may_initialize(transaction, request.expected):
            turn.reply(to, KafkaError(ErrorCode.PRODUCER_FENCED))
        elif transaction is not None and transaction.state.is_prepared:
            self._waiting.add(turn, request.transactional_id, to, again)
        elif transaction is not None and safeguards.aborts_before_new_epoch(transaction.state is State.ONGOING):
            self._replace_producer(turn, transaction, to, again, new_id)
        elif new_id == NO_PRODUCER and (
            transaction is None or safeguards.needs_new_producer_id(is_exhausted(transaction.producer_epoch))
        ):
            self._get_producer_id(turn, to, again)
        else:
            initialized = _initialized(transaction, request, new_id, now.wall_ms)
            _write(turn, [initialized], then_reply(to, initialized.producer))
        return turn

    def _replace_producer(
        self, turn: Effects, transaction: Transaction, to: object, again: Callable[..., Effects], new_id: ProducerId
    ) -> None:
        """Aborts the transaction of the producer before. The request goes on when that is done."""
        if self._lacks_producer_id(transaction, self._transaction_version, new_id):
            self._get_producer_id(turn, to, again)
            return
        log.info("%s has a new producer: aborting the transaction of the old one", transaction.transactional_id)

        def prepared(error: ErrorCode, now: Now) -> Effects:
            after = Effects(now)
            if error:
                after.reply(to, KafkaError(error))
            else:
                self._waiting.add(after, transaction.transactional_id, to, again)
            return after

        self._prepare(turn, [transaction.fenced(self._transaction_version, new_id, turn.now.wall_ms)], prepared)

    def _lacks_producer_id(self, transaction: Transaction, version: int, new_id: ProducerId) -> bool:
        """Whether ending this transaction takes the last epoch of its producer id."""
        exhausted = version >= EPOCH_PER_TRANSACTION and is_exhausted(transaction.producer_epoch)
        return safeguards.needs_new_producer_id(exhausted) and new_id == NO_PRODUCER

    def _get_producer_id(self, turn: Effects, to: object, again: Callable[..., Effects]) -> None:
        def answered(answer: InitProducerIdResponse | None, now: Now) -> Effects:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE if answer is None else error_code(answer.error_code)
            if answer is None or code:
                after = Effects(now)
                after.reply(to, KafkaError(code))
                return after
            return again(now, ProducerId(answer.producer_id))

        self._ask_for_producer_id(turn, answered)

    def _ask_for_producer_id(
        self, turn: Effects, then: Callable[[InitProducerIdResponse | None, Now], Effects]
    ) -> None:
        """This broker has producer ids for clients without a transactional id: they are as good."""
        turn.ask(
            Ask(
                broker_id=self._broker_id,
                request=InitProducerIdRequest(transactional_id=None),
                version=INIT_PRODUCER_ID_VERSION,
                timeout_ms=PRODUCER_ID_TIMEOUT_MS,
                then=then,
            )
        )

    # AddPartitionsToTxn, AddOffsetsToTxn

    def join(self, request: Joining, to: object, now: Now) -> Effects:
        """Answers with nothing, once the partitions are part of the transaction."""
        turn = Effects(now)
        transaction = self.transactions.newest.get(request.transactional_id)
        refusal = _refusal(transaction, request.producer)
        if transaction is None or refusal:
            if refusal is ErrorCode.CONCURRENT_TRANSACTIONS and request.waits:
                self._waiting.add(turn, request.transactional_id, to, lambda now: self.join(request, to, now))
            else:
                turn.reply(to, KafkaError(refusal))
        elif transaction.state is State.ONGOING and set(request.partitions) <= set(transaction.partitions):
            turn.when_committed(then_reply(to, None))
        else:
            joined = transaction.joined_by(request.partitions, request.client_version, now.wall_ms)
            _write(turn, [joined], then_reply(to, None))
        return turn

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Iterable[TopicPartition],
        to: object,
        now: Now,
    ) -> Effects:
        """Answers with an error code for each partition: whether it is part of the producer's open transaction."""
        turn = Effects(now)
        transaction = self.transactions.newest.get(transactional_id)
        refusal = _refusal(transaction, producer)
        if transaction is None or refusal:
            turn.reply(to, KafkaError(refusal))
            return turn
        joined = set(transaction.partitions)
        codes = {
            partition: ErrorCode.NONE if safeguards.is_part_of(partition in joined) else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }
        turn.when_committed(then_reply(to, codes))
        return turn

    # EndTxn

    def end(self, request: Ending, to: object, now: Now, new_id: ProducerId = NO_PRODUCER) -> Effects:
        """Answers with the producer's id and epoch for its next transaction, once the outcome is decided."""
        turn = Effects(now)

        def again(now: Now, new_id: ProducerId = NO_PRODUCER) -> Effects:
            return self.end(request, to, now, new_id)

        transaction = self.transactions.newest.get(request.transactional_id)
        code = ending.answer(transaction, request)
        if transaction is None or code:
            if code is ErrorCode.CONCURRENT_TRANSACTIONS:
                self._waiting.add(turn, request.transactional_id, to, again)
            else:
                turn.reply(to, KafkaError(code or ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        elif code is ErrorCode.NONE:
            turn.when_committed(then_reply(to, transaction.producer))
        elif self._lacks_producer_id(transaction, request.client_version, new_id):
            self._get_producer_id(turn, to, again)
        else:
            prepared = transaction.ended(request.happening, request.client_version, new_id, now.wall_ms)

            self._prepare(turn, [prepared], then_reply(to, prepared.successor))
        return turn

    def _prepare(self, turn: Effects, prepared: Sequence[Transaction], then: Then) -> None:
        """Stores the outcome. Markers are sent once it is committed, however long that takes."""

        def stored(error: ErrorCode, now: Now) -> Effects:
            after = then(error, now)
            self._end_when_committed(after, prepared, error)
            return after

        _write(turn, prepared, stored)

    def _end_when_committed(self, turn: Effects, prepared: Sequence[Transaction], error: ErrorCode) -> None:
        stored = [each for each in prepared if self.transactions.newest.get(each.transactional_id) is each]
        if not error:
            for transaction in stored:
                self.markers.add(transaction, self._image)
            self._go_on(turn)
        elif stored and error is not ErrorCode.NOT_COORDINATOR:
            # In the log, but not committed in time. The producer got the error, and retries.
            def committed(error: ErrorCode, now: Now) -> Effects:
                after = Effects(now)
                self._end_when_committed(after, stored, error)
                return after

            turn.when_committed(committed)

    # Markers and completion

    def _go_on(self, turn: Effects) -> None:
        """Sends what can be sent, and completes what has ended."""
        for broker_id, request in self.markers.requests():
            turn.ask(
                Ask(
                    broker_id=broker_id,
                    request=request,
                    version=WRITE_TXN_MARKERS_VERSION,
                    timeout_ms=MARKERS_TIMEOUT_MS,
                    then=self._answer_of(broker_id),
                )
            )
        if self.markers.are_retried:
            turn.set_timer(MARKERS_TIMER, RETRY_MS)
        self._ended.update(dict.fromkeys(self.markers.take_ended()))
        if self._ended:
            if turn.append is None:
                self._complete(turn)
            else:
                turn.set_timer(COMPLETION_TIMER, 0)

    def _answer_of(self, broker_id: BrokerId) -> Callable[[WriteTxnMarkersResponse | None, Now], Effects]:
        def answered(answer: WriteTxnMarkersResponse | None, now: Now) -> Effects:
            turn = Effects(now)
            self.markers.answered(broker_id, answer)
            self._go_on(turn)
            return turn

        return answered

    def _complete(self, turn: Effects) -> None:
        ended = list(islice(self._ended, CHANGES_PER_TURN))
        for transactional_id in ended:
            del self._ended[transactional_id]
        if self._ended:
            turn.set_timer(COMPLETION_TIMER, 0)
        prepared = [self.transactions.newest[transactional_id] for transactional_id in ended]

        def stored(error: ErrorCode, now: Now) -> Effects:
            after = Effects(now)
            refused = [each.transactional_id for each in prepared if self._is_newest(each)]
            if error and refused:
                self._ended.update(dict.fromkeys(refused))
                after.set_timer(COMPLETION_TIMER, RETRY_MS)
            return after

        _write(turn, [each.completed(turn.now.wall_ms) for each in prepared], stored)
        for transactional_id in ended:
            self._waiting.wake(turn, transactional_id)

    # Time-outs and expiry

    def _time_out_ms(self, transactional_id: str) -> int | None:
        """When its transaction is aborted, by the wall clock."""
        transaction = self.transactions.newest.get(transactional_id)
        if transaction is None or transaction.state is not State.ONGOING or transaction.timeout_ms == NO_TIMEOUT_MS:
            return None
        return transaction.started_ms + transaction.timeout_ms + 1

    def _expiry_ms(self, transactional_id: str) -> int | None:
        """When it is removed if no request uses it before."""
        transaction = self.transactions.newest.get(transactional_id)
        return None if transaction is None else transaction.updated_ms + self._config.expiration_ms

    def _abort_timed_out(self, turn: Effects) -> None:
        now_ms = turn.now.wall_ms
        found = self._take(self._time_outs, now_ms)
        is_more = self._time_outs.may_have(now_ms)
        fenced: list[Transaction] = []
        room = PARTITIONS_PER_TURN
        for transaction in found:
            # Unless it is aborted now, the next check finds it again.
            self._time_outs.put(transaction.transactional_id)
            room -= len(transaction.partitions)
            if room < 0 and fenced:
                is_more = True
                continue
            log.info("%s took longer than %d ms: aborting it", transaction.transactional_id, transaction.timeout_ms)
            self._timed_out.count += 1
            if self._lacks_producer_id(transaction, self._transaction_version, NO_PRODUCER):
                self._abort_with_new_id(turn, transaction)
            else:
                fenced.append(transaction.fenced(self._transaction_version, NO_PRODUCER, now_ms))
        turn.set_timer(TIMED_OUT_TIMER, RETRY_MS if is_more else self._config.timed_out_check_interval_ms)
        if fenced:
            self._prepare(turn, fenced, then_nothing)

    def _take(self, due: Due[str], now_ms: int) -> list[Transaction]:
        return [self.transactions.newest[transactional_id] for transactional_id in due.take(now_ms, CHANGES_PER_TURN)]

    def _abort_with_new_id(self, turn: Effects, transaction: Transaction) -> None:
        def answered(answer: InitProducerIdResponse | None, now: Now) -> Effects:
            after = Effects(now)
            # If there is no id now, the next check tries again.
            if answer is not None and not answer.error_code and self._is_newest(transaction):
                new_id = ProducerId(answer.producer_id)
                fenced = transaction.fenced(self._transaction_version, new_id, now.wall_ms)
                self._prepare(after, [fenced], then_nothing)
            return after

        self._ask_for_producer_id(turn, answered)

    def _is_newest(self, transaction: Transaction) -> bool:
        return self.transactions.newest.get(transaction.transactional_id) is transaction

    def _expire(self, turn: Effects) -> None:
        now_ms = turn.now.wall_ms
        found = self._take(self._expiries, now_ms)
        is_more = self._expiries.may_have(now_ms)
        turn.set_timer(EXPIRED_TIMER, RETRY_MS if is_more else self._config.expired_check_interval_ms)
        for transaction in found:
            # Unless its removal is written now, the next check finds it again.
            self._expiries.put(transaction.transactional_id)
        changes = [TransactionStored(each.transactional_id, None) for each in found if each.state.is_idle]
        if changes:
            log.info("%d transactional ids have expired", len(changes))
            turn.write(changes, then_nothing)

    # For readers

    def committed(self, transactional_id: str) -> Transaction | None:
        return self.transactions.committed_value(transactional_id)


def _write(turn: Effects, after: Iterable[Transaction], then: Then) -> None:
    turn.write([TransactionStored(each.transactional_id, each) for each in after], then)


def _refusal(transaction: Transaction | None, producer: ProducerIdentity) -> ErrorCode:
    """For a producer that uses its transaction."""
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.state.is_prepared and producer == transaction.successor:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if producer.producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not safeguards.is_current(producer.producer_epoch, transaction.producer_epoch):
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if transaction.state.is_prepared else ErrorCode.NONE


def _may_initialize(transaction: Transaction, expected: ProducerIdentity | None) -> bool:
    """A producer that says what it has is refused if another one has replaced it."""
    if expected is None or transaction.producer_epoch == NO_PRODUCER_EPOCH:
        return True
    if expected.producer_id != transaction.producer_id:
        # A retry after the epochs of the previous producer id were used up.
        return expected == (transaction.previous_producer_id, transaction.last_producer_epoch)
    if transaction.state is State.ONGOING:
        return safeguards.is_current(expected.producer_epoch, transaction.producer_epoch)
    known = (transaction.producer_epoch, transaction.last_producer_epoch)
    return any(safeguards.is_current(expected.producer_epoch, epoch) for epoch in known)


def _initialized(
    transaction: Transaction | None, request: Initialization, new_id: ProducerId, now_ms: int
) -> Transaction:
    timeout_ms, expected = request.timeout_ms, request.expected
    if transaction is None:
        return Transaction(
            transactional_id=request.transactional_id,
            producer_id=new_id,
            producer_epoch=0,
            timeout_ms=timeout_ms,
            state=State.EMPTY,
            updated_ms=now_ms,
        )
    epoch = transaction.producer_epoch
    if expected is not None and expected.producer_epoch == transaction.last_producer_epoch:
        # A retry: the answer was lost.
        return transaction.initialized(timeout_ms, epoch=epoch, last_epoch=expected.producer_epoch, now_ms=now_ms)
    last_epoch = NO_PRODUCER_EPOCH if expected is None else epoch
    if new_id != NO_PRODUCER:
        return transaction.rotated(new_id, timeout_ms, last_epoch=last_epoch, now_ms=now_ms)
    return transaction.initialized(timeout_ms, epoch=epoch + 1, last_epoch=last_epoch, now_ms=now_ms)
