"""Producers: idempotent ones that retry until acknowledged, and plain ones that do not retry."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.sim import records
from odradek.sim.client import BrokerConnection
from odradek.sim.history import Place, Violation
from odradek.sim.workloads.refusals import RETRIABLE, AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

IN_FLIGHT_MAX = 5
ACKS_ALL = -1
_PRODUCE_VERSION = 11
_INIT_VERSION = 4


@dataclass(slots=True)
class _Batch:
    place: Place
    values: list[bytes]
    data: bytes

    def __str__(self) -> str:
        topic, partition = self.place
        first, last = self.values[0].rstrip(b".").decode(), self.values[-1].rstrip(b".").decode()
        return f"{topic}-{partition} {first} to {last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerPlan:
    places: tuple[Place, ...]
    idempotent: bool
    acks: int
    batches: int
    records_max: int
    value_bytes_max: int
    # By topic: whether sequences survive everything that can happen in this run.
    safe: dict[str, bool]


class Producer(Worker):
    def __init__(self, name: str, errand: Errand, plan: ProducerPlan) -> None:
        super().__init__(name, errand)
        self.plan = plan
        self._made = 0
        self._values_made = 0
        self._producer_id = -1
        self._sequences: dict[Place, int] = {}
        # Where the present producer id has written.
        self._acknowledged: dict[Place, None] = {}
        # Sent and not yet acknowledged, or to be sent again; in sequence order per partition.
        self._open: deque[_Batch] = deque()

    def finished(self) -> bool:
        return not self._open and (self._made >= self.plan.batches or self.errand.closing.is_set())

    def interrupted(self) -> None:
        if not self.plan.idempotent:
            self._open.clear()

    async def work(self, session: Session) -> None:
        if self.plan.idempotent and self._producer_id < 0:
            await self._become_known(session)
        flying: deque[tuple[_Batch, BrokerConnection, asyncio.Future[ProduceResponse]]] = deque()
        to_send = deque(self._open)
        while not self.finished() or flying:
            if not to_send and len(flying) < IN_FLIGHT_MAX and self._may_begin():
                to_send.append(self._make_batch())
            if to_send and len(flying) < IN_FLIGHT_MAX and self._may_follow(to_send[0], [each[0] for each in flying]):
                batch = to_send.popleft()
                leader = await session.leader(batch.place)
                flying.append((batch, leader, leader.send(self._request(batch), _PRODUCE_VERSION, ProduceResponse)))
                if self.rng.random() < 0.5:
                    await self.errand.pause()
                continue
            batch, leader, answer = flying.popleft()
            async with asyncio.timeout(self.errand.request_timeout_s):
                response = await answer
            self._settle(leader, batch, response.responses[0].partition_responses[0])

    def _may_follow(self, batch: _Batch, flying: list[_Batch]) -> bool:
        """A partition without state of a producer accepts any first sequence: it must not be one of a later batch."""
        return batch.place in self._acknowledged or all(each.place != batch.place for each in flying)

    def _may_begin(self) -> bool:
        return self._made < self.plan.batches and not self.errand.closing.is_set()

    async def _become_known(self, session: Session) -> None:
        connection = await session.anyone()
        answer = await connection.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
            _INIT_VERSION,
            InitProducerIdResponse,
            self.errand.request_timeout_s,
        )
        refuse(self.name, answer.error_code, "a producer id")
        self.history.given_producer_id(answer.producer_id, self.name)
        self._producer_id = answer.producer_id
        self._sequences.clear()
        self._acknowledged.clear()

    def _make_batch(self) -> _Batch:
        place = self.rng.choice(self.plan.places)
        values = [self._make_value() for _ in range(self.rng.randrange(self.plan.records_max) + 1)]
        sequence = self._sequences.get(place, 0)
        if self.plan.idempotent:
            data = self._encode(values, self._producer_id, 0, sequence)
            self._sequences[place] = sequence + len(values)
        else:
            data = self._encode(values, -1, -1, -1)
        batch = _Batch(place, values, data)
        self._made += 1
        self._open.append(batch)
        self.history.sends(place, values, once=self.plan.idempotent)
        return batch

    def _make_value(self) -> bytes:
        self._values_made += 1
        return f"{self.name}/{self._values_made}/".encode().ljust(self.rng.randrange(self.plan.value_bytes_max), b".")

    def _encode(self, values: list[bytes], producer_id: int, producer_epoch: int, sequence: int) -> bytes:
        return records.encode(values, self.errand.clock.wall_ms(), producer_id, producer_epoch, sequence)

    def _request(self, batch: _Batch) -> ProduceRequest:
        topic, partition = batch.place
        data = PartitionProduceData(index=partition, records=batch.data)
        return ProduceRequest(
            acks=self.plan.acks,
            timeout_ms=int(self.errand.request_timeout_s * 1000),
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )

    def _settle(self, leader: BrokerConnection, batch: _Batch, answer: PartitionProduceResponse) -> None:
        code = ErrorCode(answer.error_code)
        self.errand.note(f"{batch} at {answer.base_offset}: {code.name}")
        if code is ErrorCode.NONE:
            self._acknowledged[batch.place] = None
            if self.plan.acks == ACKS_ALL or self.errand.nodes == 1:
                self.history.acknowledged(leader.incarnation, batch.place, answer.base_offset, batch.values)
            self._open.remove(batch)
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and self.plan.idempotent:
            # Written, but too long ago for the broker to say where.
            self._open.remove(batch)
        elif code in RETRIABLE:
            raise AskAgain(code.name)
        elif code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID) and self.plan.idempotent:
            self._out_of_order(batch, code)
        else:
            raise Violation(f"J8 {self.name} was refused a write to {batch.place}: {code.name}")

    def _out_of_order(self, batch: _Batch, code: ErrorCode) -> None:
        first = next(each for each in self._open if each.place == batch.place)
        if first is not batch:
            # An earlier batch failed; both are sent again, in order.
            raise AskAgain(code.name)
        if self.plan.safe[batch.place[0]]:
            raise Violation(f"P1 {self.name} sends {batch.place} in order and gets {code.name}")
        # The broker lost acknowledged records, as this topic permits. The fate of the open batches stays unknown.
        self._producer_id = -1
        self._open.clear()
        raise AskAgain(code.name)
