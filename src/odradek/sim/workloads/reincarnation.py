"""One topic name, many topics: created, written to, trimmed, deleted, and created again under the same name."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.messages.p01_fetch import FetchResponse
from odradek.protocol.messages.p20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.messages.p21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from odradek.sim import records
from odradek.sim.history import Place, Violation
from odradek.sim.workloads.admin import NewTopic, create_topic
from odradek.sim.workloads.reading import (
    EARLIEST,
    FETCH_VERSION,
    PartitionReader,
    fetch_request,
    is_out_of_range,
    leadership_of,
    list_offset,
)
from odradek.sim.workloads.refusals import AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

_PRODUCE_VERSION = 11
_DELETE_TOPICS_VERSION = 5
_DELETE_RECORDS_VERSION = 2


class Reincarnation(Worker):
    """Remembers what the present topic of this name acknowledged, after a sync, and checks that it is there.

    A request that was not answered may still arrive, and find another topic under the name.
    """

    def __init__(self, name: str, errand: Errand) -> None:
        super().__init__(name, errand)
        self._place: Place = (name, 0)
        self._topic_id = b""
        self._values_made = 0
        self._acked: dict[int, bytes] = {}
        self._deleted_below = 0
        # Set by requests without an answer, whichever topic they reach.
        self._perhaps_deleted_below = 0
        self._compared_at_last = False

    def finished(self) -> bool:
        return self._compared_at_last

    async def work(self, session: Session) -> None:
        while not self.errand.closing.is_set():
            await self._be_there(session)
            for _ in range(self.rng.randrange(1, 6)):
                await self._write(session)
                await self.errand.pause()
            if self.rng.random() < 0.5:
                await self._trim(session)
            await self._compare(session)
            if self.rng.random() < 0.5:
                await self._delete(session)
        if await self._present_id(session) == self._topic_id:
            await self._compare(session)
        self._compared_at_last = True

    async def _present_id(self, session: Session) -> bytes:
        return (await session.describe([self.name])).topics[0].topic_id

    async def _be_there(self, session: Session) -> None:
        wanted = NewTopic(name=self.name, partitions=1, replicas=1, configs={"flush.messages": "1"})
        topic_id = await create_topic(session, wanted, self.errand.request_timeout_s)
        if topic_id is None:
            topic_id = await self._present_id(session)
        if topic_id != self._topic_id:
            self._topic_id = topic_id
            self._acked.clear()
            self._deleted_below = self._perhaps_deleted_below

    async def _write(self, session: Session) -> None:
        self._values_made += 1
        value = f"{self.name}/{self._values_made}/".encode()
        data = records.encode([value], self.errand.clock.wall_ms())
        produce = ProduceRequest(
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=self.name, partition_data=[PartitionProduceData(records=data)])],
        )
        leader = await session.leader(self._place)
        answer = await leader.ask(produce, _PRODUCE_VERSION, ProduceResponse, self.errand.request_timeout_s)
        result = answer.responses[0].partition_responses[0]
        refuse(self.name, result.error_code, "a write")
        offset = result.base_offset
        if offset in self._acked:
            await self._accuse(session, f"J2 {self._place} offset {offset} was {self._acked[offset]!r}, now {value!r}")
        self._acked[offset] = value

    async def _trim(self, session: Session) -> None:
        offset = self.rng.choice(list(self._acked))
        self._deleted_below = max(self._deleted_below, offset)
        answered_before = self._perhaps_deleted_below
        self._perhaps_deleted_below = max(self._perhaps_deleted_below, offset)
        asked = DeleteRecordsTopic(name=self.name, partitions=[DeleteRecordsPartition(offset=offset)])
        leader = await session.leader(self._place)
        answer = await leader.ask(
            DeleteRecordsRequest(topics=[asked], timeout_ms=5000),
            _DELETE_RECORDS_VERSION,
            DeleteRecordsResponse,
            self.errand.request_timeout_s,
        )
        self._perhaps_deleted_below = answered_before
        result = answer.topics[0].partitions[0]
        if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise AskAgain("another topic, or its high watermark is not back yet")
        refuse(self.name, result.error_code, "a deletion of records")

    async def _compare(self, session: Session) -> None:
        earliest = await list_offset(session, self._place, EARLIEST, self.errand.request_timeout_s)
        found = await self._content(session, earliest)
        if earliest > self._deleted_below:
            await self._accuse(session, f"L6 {self._place} begins at {earliest}, not before {self._deleted_below}")
        for offset, value in self._acked.items():
            there = found.get(offset)
            if there != value and offset >= self._deleted_below:
                await self._accuse(session, f"J1 {self._place} offset {offset} was {value!r}, there is {there!r}")

    async def _accuse(self, session: Session, what: str) -> None:
        """Raises Violation, unless the topic was recreated meanwhile."""
        if await self._present_id(session) == self._topic_id:
            raise Violation(what)
        raise AskAgain("another topic by now")

    async def _content(self, session: Session, earliest: int) -> dict[int, bytes]:
        reader = PartitionReader(self._place, earliest)
        found: dict[int, bytes] = {}
        while True:
            leader = await session.leader(self._place)
            request = fetch_request(session, [reader], wait_ms=0, partition_bytes=1 << 20)
            answer = await leader.ask(request, FETCH_VERSION, FetchResponse, self.errand.request_timeout_s)
            partition = answer.responses[0].partitions[0]
            if is_out_of_range(partition):
                raise AskAgain("another topic, or records were deleted by a late request")
            refuse(self.name, partition.error_code, "a read")
            taken = reader.take(leadership_of(session, leader, self._place), partition)
            if not taken:
                break
            found.update(taken)
        if reader.high_watermark <= max(self._acked, default=-1):
            # After a crash the high watermark rises step by step.
            raise AskAgain("not all of it can be read yet")
        return found

    async def _delete(self, session: Session) -> None:
        request = DeleteTopicsRequest(topic_names=[self.name], timeout_ms=5000)
        connection = await session.anyone()
        answer = await connection.ask(
            request, _DELETE_TOPICS_VERSION, DeleteTopicsResponse, self.errand.request_timeout_s
        )
        refuse(self.name, answer.responses[0].error_code, "the deletion of the topic")
