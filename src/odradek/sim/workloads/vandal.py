"""A producer that breaks the rules on purpose, one at a time, and must be refused each time."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.sim import records
from odradek.sim.history import Place, Violation
from odradek.sim.workloads.refusals import RETRIABLE, AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

_PAUSES = 8.0


class Vandal(Worker):
    """Writes to partitions that lose no sequence number in this run."""

    def __init__(self, name: str, errand: Errand, places: tuple[Place, ...]) -> None:
        super().__init__(name, errand)
        self._places = places
        self._values_made = 0

    async def work(self, session: Session) -> None:
        while not self.finished():
            place = self.rng.choice(self._places)
            misdeed = self.rng.choice((self._damaged, self._gap, self._old_epoch))
            await misdeed(session, place)
            await self.errand.pause(_PAUSES)

    async def _damaged(self, session: Session, place: Place) -> None:
        batch = bytearray(records.encode([self._value()], self.errand.clock.wall_ms()))
        batch[self.rng.randrange(records.HEADER_BYTES, len(batch))] ^= 1 << self.rng.randrange(8)
        await self._must_fail(session, place, bytes(batch), ErrorCode.CORRUPT_MESSAGE)

    async def _gap(self, session: Session, place: Place) -> None:
        producer_id = await self._producer_id(session)
        await self._must_pass(session, place, producer_id, producer_epoch=0)
        skipping = records.encode([self._value()], self.errand.clock.wall_ms(), producer_id, 0, 7)
        await self._must_fail(session, place, skipping, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    async def _old_epoch(self, session: Session, place: Place) -> None:
        producer_id = await self._producer_id(session)
        await self._must_pass(session, place, producer_id, producer_epoch=3)
        outdated = records.encode([self._value()], self.errand.clock.wall_ms(), producer_id, 2, 0)
        await self._must_fail(session, place, outdated, ErrorCode.INVALID_PRODUCER_EPOCH)

    async def _producer_id(self, session: Session) -> int:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        connection = await session.anyone()
        answer = await connection.ask(request, 4, InitProducerIdResponse, self.errand.request_timeout_s)
        refuse(self.name, answer.error_code, "a producer id")
        self.history.given_producer_id(answer.producer_id, self.name)
        return answer.producer_id

    async def _must_pass(self, session: Session, place: Place, producer_id: int, *, producer_epoch: int) -> None:
        value = self._value()
        self.history.sends(place, [value], once=True)
        data = records.encode([value], self.errand.clock.wall_ms(), producer_id, producer_epoch, 0)
        code, offset = await self._send(session, place, data)
        refuse(self.name, code, f"a first write to {place}")
        leader = await session.leader(place)
        self.history.acknowledged(leader.incarnation, place, offset, [value])

    async def _must_fail(self, session: Session, place: Place, data: bytes, why: ErrorCode) -> None:
        code, _ = await self._send(session, place, data)
        if code in RETRIABLE:
            raise AskAgain(ErrorCode(code).name)
        if code != why:
            raise Violation(f"P1 {place} answered {ErrorCode(code).name} to what deserves {why.name}")

    async def _send(self, session: Session, place: Place, data: bytes) -> tuple[int, int]:
        topic, partition = place
        produce = ProduceRequest(
            acks=-1,
            timeout_ms=5000,
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=data)])
            ],
        )
        leader = await session.leader(place)
        answer = await leader.ask(produce, 11, ProduceResponse, self.errand.request_timeout_s)
        result = answer.responses[0].partition_responses[0]
        return result.error_code, result.base_offset

    def _value(self) -> bytes:
        self._values_made += 1
        return f"{self.name}/{self._values_made}/".encode()
