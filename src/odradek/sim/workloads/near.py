"""A reader with a rack: the leader redirects it to a follower near it (KIP-392)."""

from __future__ import annotations

from odradek.protocol.messages.p01_fetch import FetchResponse
from odradek.sim.client import BrokerConnection
from odradek.sim.history import Place
from odradek.sim.workloads.reading import (
    EARLIEST,
    FETCH_VERSION,
    PartitionReader,
    fetch_request,
    is_out_of_range,
    leadership_of,
    list_offset,
)
from odradek.sim.workloads.refusals import refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker


class NearReader(Worker):
    """Reads one partition after the other, from the replica it is redirected to; at its end, from the leader."""

    def __init__(self, name: str, errand: Errand, places: tuple[Place, ...], rack: str) -> None:
        super().__init__(name, errand)
        self._readers = {place: PartitionReader(place, 0) for place in places}
        self._rack = rack
        # By partition: the broker that its leader redirected the reader to.
        self._near: dict[Place, int] = {}

    async def work(self, session: Session) -> None:
        while not self.finished():
            for place, reader in self._readers.items():
                await self._poll(session, place, reader)
            await self.errand.pause()

    def interrupted(self) -> None:
        self._near.clear()

    async def _poll(self, session: Session, place: Place, reader: PartitionReader) -> None:
        leader = await session.leader(place)
        if place in self._near:
            await self._read(session, await session.broker(self._near.pop(place)), reader)
            return
        request = fetch_request(session, [reader], wait_ms=self.rng.choice((0, 100)), partition_bytes=10_000)
        request.rack_id = self._rack
        answer = await leader.ask(request, FETCH_VERSION, FetchResponse, self.errand.request_timeout_s)
        await self._take(session, leader, reader, answer)

    async def _read(self, session: Session, follower: BrokerConnection, reader: PartitionReader) -> None:
        request = fetch_request(session, [reader], wait_ms=self.rng.choice((0, 100)), partition_bytes=10_000)
        request.rack_id = self._rack
        answer = await follower.ask(request, FETCH_VERSION, FetchResponse, self.errand.request_timeout_s)
        polled = self.history.polled_records
        await self._take(session, follower, reader, answer)
        self.history.polled_nearby += self.history.polled_records - polled

    async def _take(
        self, session: Session, broker: BrokerConnection, reader: PartitionReader, answer: FetchResponse
    ) -> None:
        refuse(self.name, answer.error_code, "a fetch")
        partition = answer.responses[0].partitions[0]
        if is_out_of_range(partition):
            # A follower may have less than its leader, which is asked next. The log start is the same on both.
            earliest = await list_offset(session, reader.place, EARLIEST, self.errand.request_timeout_s)
            reader.position = max(reader.position, earliest)
            return
        refuse(self.name, partition.error_code, f"a read of {reader.place}")
        if partition.preferred_read_replica >= 0:
            self._near[reader.place] = partition.preferred_read_replica
            return
        records = reader.take(leadership_of(session, broker, reader.place), partition)
        self.history.polled(broker.incarnation, reader.place, records)
