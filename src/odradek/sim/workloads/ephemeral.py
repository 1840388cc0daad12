"""Topics with a short life: created, written to, read, and deleted while they are in use, each under its own name."""

from __future__ import annotations

from odradek.protocol.messages.p01_fetch import FetchResponse
from odradek.protocol.messages.p20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.sim.history import Place, Violation
from odradek.sim.workloads.admin import NewTopic, create_topic
from odradek.sim.workloads.growing import write_one
from odradek.sim.workloads.reading import (
    FETCH_VERSION,
    PartitionReader,
    fetch_request,
    leadership_of,
)
from odradek.sim.workloads.refusals import AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

_DELETE_VERSION = 5


class Ephemeral(Worker):
    """J1, J2 of topics that are synced before they acknowledge, as long as they live."""

    def __init__(self, name: str, errand: Errand, replicas: int) -> None:
        super().__init__(name, errand)
        self._replicas = replicas
        self._made = 0
        self._values_made = 0
        # Values acknowledged by the present topic, by offset; None while there is no topic.
        self._acked: dict[int, bytes] | None = None

    @property
    def _place(self) -> Place:
        return (f"{self.name}-{self._made}", 0)

    async def work(self, session: Session) -> None:
        while not self.finished():
            if self._acked is None:
                await self._create(session)
            else:
                await self._write(session, self._acked)
                await self.errand.pause()
                if self.rng.random() < 0.3:
                    await self._compare(session, self._acked)
                    await self._delete(session)

    async def _create(self, session: Session) -> None:
        self._made += 1
        wanted = NewTopic(name=self._place[0], partitions=1, replicas=self._replicas, configs={"flush.messages": "1"})
        await create_topic(session, wanted, self.errand.request_timeout_s)
        self._acked = {}

    async def _write(self, session: Session, acked: dict[int, bytes]) -> None:
        self._values_made += 1
        value = f"{self.name}/{self._values_made}/".encode()
        offset = await write_one(session, self._place, value, self.errand)
        if offset in acked:
            raise Violation(f"J2 {self._place} offset {offset} was {acked[offset]!r}, now {value!r}")
        acked[offset] = value

    async def _compare(self, session: Session, acked: dict[int, bytes]) -> None:
        reader = PartitionReader(self._place, 0)
        found: dict[int, bytes] = {}
        while reader.position <= max(acked, default=-1):
            leader = await session.leader(self._place)
            request = fetch_request(session, [reader], wait_ms=100, partition_bytes=1 << 20)
            answer = await leader.ask(request, FETCH_VERSION, FetchResponse, self.errand.request_timeout_s)
            partition = answer.responses[0].partitions[0]
            refuse(self.name, partition.error_code, "a read")
            taken = reader.take(leadership_of(session, leader, self._place), partition)
            if not taken:
                raise AskAgain("not all of it can be read yet")
            found.update(taken)
        for offset, value in acked.items():
            if found.get(offset) != value:
                raise Violation(f"J1 {self._place} offset {offset} was {value!r}, there is {found.get(offset)!r}")

    async def _delete(self, session: Session) -> None:
        """Whether or not it is answered, the topic is no longer checked."""
        name, self._acked = self._place[0], None
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
        connection = await session.anyone()
        answer = await connection.ask(request, _DELETE_VERSION, DeleteTopicsResponse, self.errand.request_timeout_s)
        refuse(self.name, answer.responses[0].error_code, f"the deletion of {name}")
