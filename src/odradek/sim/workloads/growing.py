"""A topic that gets partitions while it is written to."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.p37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from odradek.sim import records
from odradek.sim.history import Place, Violation
from odradek.sim.workloads.refusals import AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

PARTITIONS_MAX = 6
_PAUSES = 2.0
_PRODUCE_VERSION = 11


class Grower(Worker):
    """Adds partitions, and writes to all that were acknowledged. `partitions`: how many there are at least."""

    def __init__(self, name: str, errand: Errand, topic: str, partitions: int) -> None:
        super().__init__(name, errand)
        self._topic = topic
        self.partitions = partitions
        self._values_made = 0

    async def work(self, session: Session) -> None:
        while not self.finished():
            if self.partitions < PARTITIONS_MAX and self.rng.random() < 0.2:
                await self._grow(session)
            await self._write(session, (self._topic, self.rng.randrange(self.partitions)))
            await self.errand.pause(_PAUSES)

    async def _grow(self, session: Session) -> None:
        count = self.partitions + self.rng.randint(1, 2)
        connection = await session.anyone()
        answer = await connection.ask(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=self._topic, count=count, assignments=None)], timeout_ms=5000
            ),
            3,
            CreatePartitionsResponse,
            self.errand.request_timeout_s,
        )
        result = answer.results[0]
        if result.error_code == ErrorCode.INVALID_PARTITIONS:
            await self._count(session)
            return
        if result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
            raise AskAgain("too few brokers are up at the moment")
        refuse(self.name, result.error_code, f"{count} partitions of {self._topic}")
        self.partitions = count

    async def _count(self, session: Session) -> None:
        """An earlier request was executed, and its answer was lost; this broker may not know of it yet."""
        known = (await session.describe([self._topic])).topics[0]
        refuse(self.name, known.error_code, f"the partitions of {self._topic}")
        self.partitions = max(self.partitions, len(known.partitions))

    async def _write(self, session: Session, place: Place) -> None:
        self._values_made += 1
        value = f"{self.name}/{self._values_made}/".encode()
        self.history.sends(place, [value], once=False)
        offset = await write_one(session, place, value, self.errand)
        leader = await session.leader(place)
        self.history.acknowledged(leader.incarnation, place, offset, [value])


async def write_one(session: Session, place: Place, value: bytes, errand: Errand) -> int:
    """Writes with acks=all. Returns the offset."""
    data = PartitionProduceData(index=place[1], records=records.encode([value], errand.clock.wall_ms()))
    produce = ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=place[0], partition_data=[data])]
    )
    leader = await session.leader(place)
    answer = await leader.ask(produce, _PRODUCE_VERSION, ProduceResponse, errand.request_timeout_s)
    result = answer.responses[0].partition_responses[0]
    refuse("ProduceRequest", result.error_code, f"a write to {place}")
    if result.base_offset < 0:
        raise Violation(f"J8 {place} acknowledged a write without an offset")
    return result.base_offset
