"""Producers that write in transactions, by the old protocol and by that of transaction.version 2.

An old producer keeps its epoch. A request that was never answered may arrive late and change its next transaction, as
with Kafka: `tests/traps/test_torn_transactions.py` shows it. So here it asks for a new epoch after any such
request, and nothing is torn. A new producer has an epoch for each transaction, and needs no such care.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.p24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.p26_end_txn import EndTxnRequest, EndTxnResponse
from odradek.sim import keyed, records
from odradek.sim.history import Place, Violation
from odradek.sim.transactions import Identity, SeenTransaction, TransactionHistory
from odradek.sim.workloads.refusals import RETRIABLE, AskAgain
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

_INIT_VERSION = 5
_ADD_PARTITIONS_VERSION = 3
_OLD_PRODUCE, _NEW_PRODUCE = 11, 12
_OLD_END, _NEW_END = 4, 5
_NO_IDENTITY = (-1, -1)
_BATCHES_MAX = 4
_RETRIED = RETRIABLE | {ErrorCode.CONCURRENT_TRANSACTIONS}
# The transaction is over for this producer: it was replaced, or took too long.
_OVER = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


class Over(Exception):
    """The broker refuses this transaction for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalPlan:
    transactional_id: str
    history: TransactionHistory
    places: tuple[Place, ...]
    # Of a compacted topic that some transactions write to as well.
    accounts: tuple[Place, ...]
    keys: int
    # Whether it speaks transaction.version 2.
    is_new: bool
    transactions: int
    timeout_ms: int
    # Whether another client uses the same transactional id.
    has_twin: bool
    clocks_agree: bool


@dataclass(slots=True, eq=False)
class Batch:
    place: Place
    values: list[bytes]
    data: bytes
    # Whether another producer was known to have replaced this one when the batch was first sent; None before that.
    sent_as_replaced: bool | None = None


@dataclass(slots=True)
class Work:
    """The transaction of now, and what is left to do in it."""

    seen: SeenTransaction
    commits: bool
    began_s: float
    to_join: list[Place]
    to_send: deque[Batch]
    # Sent without waiting for the answer, directly before the abort, or after it: as from a connection that was slow.
    unawaited: list[Batch] = field(default_factory=list)
    is_late: bool = False
    # Leaves the transaction open, after everything was sent, for this long, or for ever.
    sleeps_s: float = 0.0
    vanishes: bool = False
    # Some request got no answer.
    in_doubt: bool = False
    commit_sent_as_replaced: bool | None = None
    # Input that it commits: the group's next offset before and after.
    offset: tuple[int, int] | None = None
    offset_is_joined: bool = False
    offset_is_sent: bool = False


class TransactionalProducer(Worker):
    def __init__(self, name: str, errand: Errand, plan: TransactionalPlan) -> None:
        super().__init__(name, errand)
        self.plan = plan
        self.seen = plan.history
        self.producer: Identity = _NO_IDENTITY
        self._before: Identity = _NO_IDENTITY
        self._sequences: dict[Place, int] = {}
        self.work_of_now: Work | None = None
        self._made = 0
        self._values_made = 0
        # A request for an epoch that was never answered may arrive late, and fence this producer itself.
        self._init_in_doubt = False
        self._init_under_way = False
        self._left = False

    def finished(self) -> bool:
        return self._left

    def interrupted(self) -> None:
        if self._init_under_way:
            self._init_in_doubt = True
        if self.work_of_now is not None:
            self.work_of_now.in_doubt = True

    async def work(self, session: Session) -> None:
        while not self._left:
            if self.work_of_now is None and self._is_done():
                await self._leave(session)
                return
            if self.producer == _NO_IDENTITY:
                await self.initialize(session)
            try:
                if self.work_of_now is None:
                    self.work_of_now = await self.begin(session)
                if self.work_of_now is not None:
                    await self._advance(session, self.work_of_now)
            except Over as why:
                await self._give_up(str(why))
            await self.errand.pause()

    def _is_done(self) -> bool:
        return self._made >= self.plan.transactions or self.errand.closing.is_set()

    async def _leave(self, session: Session) -> None:
        """Ends the last transaction and fences every request under way, unless the time-out has to do that."""
        if not (self.plan.clocks_agree and self.plan.timeout_ms < 10_000 and self.rng.random() < 0.3):
            await self.initialize(session)
        self._left = True

    # Epochs

    async def initialize(self, session: Session) -> None:
        known = self.seen.known(self.plan.transactional_id)
        self._init_under_way = True
        coordinator = await session.transaction_coordinator(self.plan.transactional_id)
        answer = await coordinator.ask(
            InitProducerIdRequest(
                transactional_id=self.plan.transactional_id, transaction_timeout_ms=self.plan.timeout_ms
            ),
            _INIT_VERSION,
            InitProducerIdResponse,
            self.errand.request_timeout_s,
        )
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
            # It may be in the coordinator's log all the same.
            self._init_in_doubt = True
        self._init_under_way = False
        if code in _RETRIED:
            raise AskAgain(code.name)
        if code is not ErrorCode.NONE:
            raise Violation(f"J8 {self.name} was refused an epoch: {code.name}")
        self._take((answer.producer_id, answer.producer_epoch), known)

    def _take(self, identity: Identity, known: int) -> None:
        self.seen.given(self.plan.transactional_id, identity, known)
        self.errand.note(f"{self.plan.transactional_id} is producer {identity}")
        self.producer = identity
        self._sequences.clear()

    # One transaction

    async def begin(self, session: Session) -> Work | None:
        del session
        return self.plan_work(self.rng.sample(self.plan.places, self.rng.randint(1, len(self.plan.places))))

    def plan_work(self, places: list[Place]) -> Work:
        fate = self.rng.random()
        work = self.new_work(commits=fate < 0.65)
        for _ in range(self.rng.randint(1, _BATCHES_MAX)):
            place = self.rng.choice(places)
            work.to_send.append(self.new_batch(work, place, self._new_values()))
        work.to_join = list(dict.fromkeys(batch.place for batch in work.to_send))
        if self.plan.accounts and self.rng.random() < 0.5:
            work.to_send.append(self._new_balance(work))
            work.to_join.append(work.to_send[-1].place)
        if 0.65 <= fate < 0.8 and work.to_send:
            work.unawaited = [work.to_send.pop()]
            work.is_late = fate < 0.72
        self.maybe_stray(work)
        return work

    def maybe_stray(self, work: Work) -> None:
        chance = self.rng.random()
        if chance < 0.1:
            work.sleeps_s = self.rng.uniform(0.5, 1.5) * min(self.plan.timeout_ms, 3_000) / 1000
        elif chance < 0.18:
            work.vanishes = True

    def new_work(self, *, commits: bool) -> Work:
        self._made += 1
        name = f"transaction {self.name}/{self._made} of {self.plan.transactional_id} {self.producer}"
        seen = self.seen.begins(self.plan.transactional_id, self.producer, name)
        seen.replaced = self.is_replaced()
        loop = asyncio.get_running_loop()
        return Work(seen=seen, commits=commits, began_s=loop.time(), to_join=[], to_send=deque())

    def is_replaced(self) -> bool:
        return self.seen.is_replaced(self.plan.transactional_id, self.producer)

    def new_batch(self, work: Work, place: Place, values: list[bytes]) -> Batch:
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(values)
        work.seen.sends(place, values)
        self.history.sends(place, values, once=True)
        if place in self.plan.accounts:
            data = records.encode_keyed(values, *self.producer, sequence, records.TRANSACTIONAL)
        else:
            data = records.encode(values, self.errand.clock.wall_ms(), *self.producer, sequence, records.TRANSACTIONAL)
        return Batch(place, values, data)

    def _new_balance(self, work: Work) -> Batch:
        text = self._new_values()[0]
        key = b"k%d" % self.rng.randrange(self.plan.keys)
        told = keyed.tell(key, text, self.errand.clock.wall_ms(), deletes=False)
        return self.new_batch(work, self.rng.choice(self.plan.accounts), [told])

    def _new_values(self) -> list[bytes]:
        first, self._values_made = self._values_made, self._values_made + self.rng.randint(1, 3)
        return [f"{self.name}/{number}/".encode() for number in range(first, self._values_made)]

    async def _advance(self, session: Session, work: Work) -> None:
        if not self.plan.is_new:
            await self._join(session, work)
        while work.to_send:
            await self._produce(session, work)
        await self.send_offset(session, work)
        if self._before != _NO_IDENTITY and self.plan.is_new and work.seen.acked_at and not work.seen.echoed:
            await self._echo(session, work)
        if work.sleeps_s:
            sleeps_s, work.sleeps_s = work.sleeps_s, 0.0
            await asyncio.sleep(sleeps_s)
        if work.vanishes:
            self.errand.note(f"{work.seen.name} is abandoned")
            self._end_work(work)
            self._forget()
            return
        if not work.is_late:
            await self._produce_unawaited(session, work)
        await self._end(session, work)

    async def _join(self, session: Session, work: Work) -> None:
        while work.to_join:
            count = self.rng.randint(1, len(work.to_join))
            topics: dict[str, AddPartitionsToTxnTopic] = {}
            for topic, partition in work.to_join[:count]:
                topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic)).partitions.append(partition)
            coordinator = await session.transaction_coordinator(self.plan.transactional_id)
            answer = await coordinator.ask(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.plan.transactional_id,
                    v3_and_below_producer_id=self.producer[0],
                    v3_and_below_producer_epoch=self.producer[1],
                    v3_and_below_topics=list(topics.values()),
                ),
                _ADD_PARTITIONS_VERSION,
                AddPartitionsToTxnResponse,
                self.errand.request_timeout_s,
            )
            for result in answer.results_by_topic_v3_and_below:
                for each in result.results_by_partition:
                    self.heed(work, ErrorCode(each.partition_error_code), "a partition of its transaction")
            del work.to_join[:count]

    async def _produce(self, session: Session, work: Work) -> None:
        """Sends the next batch of each partition, at the same time."""
        chosen: dict[Place, Batch] = {}
        for batch in work.to_send:
            chosen.setdefault(batch.place, batch)
        flying = []
        for batch in chosen.values():
            leader = await session.leader(batch.place)
            if batch.sent_as_replaced is None:
                batch.sent_as_replaced = self.is_replaced()
            flying.append((batch, leader, leader.send(self._request(batch), self._produce_version, ProduceResponse)))
        for batch, leader, under_way in flying:
            async with asyncio.timeout(self.errand.request_timeout_s):
                answer = (await under_way).responses[0].partition_responses[0]
            code = ErrorCode(answer.error_code)
            self.errand.note(f"{batch.place} {batch.values[0]!r} at {answer.base_offset}: {code.name}")
            self.heed(work, code, f"a write to {batch.place}")
            if batch.sent_as_replaced:
                raise Violation(f"T4 {self.name} as {self.producer} wrote to {batch.place} after it had been replaced")
            work.to_send.remove(batch)
            work.seen.acked_at.setdefault(batch.place, answer.base_offset)
            work.seen.offsets.update((value, answer.base_offset + n) for n, value in enumerate(batch.values))
            self.history.acknowledged(leader.incarnation, batch.place, answer.base_offset, batch.values)

    @property
    def _produce_version(self) -> int:
        return _NEW_PRODUCE if self.plan.is_new else _OLD_PRODUCE

    async def _produce_unawaited(self, session: Session, work: Work) -> None:
        batches, work.unawaited = work.unawaited, []
        for batch in batches:
            leader = await session.leader(batch.place)
            leader.send(self._request(batch), self._produce_version, ProduceResponse)
            work.in_doubt = True

    def _request(self, batch: Batch) -> ProduceRequest:
        topic, partition = batch.place
        data = PartitionProduceData(index=partition, records=batch.data)
        return ProduceRequest(
            transactional_id=self.plan.transactional_id,
            acks=-1,
            timeout_ms=int(self.errand.request_timeout_s * 1000),
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )

    async def send_offset(self, session: Session, work: Work) -> None:
        """For producers that consume."""

    async def _echo(self, session: Session, work: Work) -> None:
        """The commit of the transaction before arrives once more, as from a connection that was slow."""
        coordinator = await session.transaction_coordinator(self.plan.transactional_id)
        work.seen.echoed = True
        coordinator.send(self._end_request(self._before, commits=True), _NEW_END, EndTxnResponse)

    def _end_request(self, producer: Identity, *, commits: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.plan.transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commits,
        )

    async def _end(self, session: Session, work: Work) -> None:
        known = self.seen.known(self.plan.transactional_id)
        coordinator = await session.transaction_coordinator(self.plan.transactional_id)
        if work.commits:
            if work.commit_sent_as_replaced is None:
                work.commit_sent_as_replaced = self.is_replaced()
            self.seen.sends_commit(work.seen)
        # Until an answer says otherwise.
        was_in_doubt = work.seen.commit_in_doubt
        work.seen.commit_in_doubt = work.commits
        answer = await coordinator.ask(
            self._end_request(self.producer, commits=work.commits),
            _NEW_END if self.plan.is_new else _OLD_END,
            EndTxnResponse,
            self.errand.request_timeout_s,
        )
        code = ErrorCode(answer.error_code)
        self.errand.note(f"{work.seen.name} ends, commits {work.commits}: {code.name}")
        if code in _OVER:
            work.seen.commit_in_doubt = was_in_doubt
        self.heed(work, code, "the end of its transaction")
        if work.commits:
            if work.commit_sent_as_replaced:
                raise Violation(f"T4 {work.seen.name} was committed after its producer had been replaced")
            self.seen.committed(work.seen)
        self._end_work(work)
        if self.plan.is_new:
            self._before = self.producer
            self._take((answer.producer_id, answer.producer_epoch), known)
        elif work.in_doubt or work.is_late:
            self._forget()
        await self._produce_unawaited(session, work)

    def _end_work(self, work: Work) -> None:
        del work
        self.work_of_now = None

    def _forget(self) -> None:
        """Another epoch comes before the next transaction."""
        self.producer = self._before = _NO_IDENTITY

    def heed(self, work: Work, code: ErrorCode, what: str) -> None:
        if code is ErrorCode.NONE:
            return
        if code in _RETRIED:
            work.in_doubt = True
            raise AskAgain(code.name)
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise Violation(f"P1 {self.name} as {self.producer} sends in order and gets {code.name}")
        if code not in _OVER or not self._may_be_over(work):
            raise Violation(f"J8 {self.name} as {self.producer} was refused {what}: {code.name}")
        raise Over(code.name)

    def _may_be_over(self, work: Work) -> bool:
        """Whether there can be a reason: a twin, a late request of its own, or a transaction that took too long."""
        took_s = asyncio.get_running_loop().time() - work.began_s
        in_time = self.plan.clocks_agree and took_s * 1000 < self.plan.timeout_ms
        return self.plan.has_twin or self._init_in_doubt or not in_time

    async def _give_up(self, why: str) -> None:
        work = self.work_of_now
        if work is not None:
            self.errand.note(f"{work.seen.name} is over: {why}")
            self._end_work(work)
        self._forget()
        if self.plan.has_twin:
            await self.errand.pause(times=self.rng.choice((1.0, 10.0)))
