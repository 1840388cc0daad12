"""A consumer without a group: reads everything, in full fetches or in a fetch session."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p01_fetch import FetchRequest, FetchResponse
from odradek.sim.client import Address, BrokerConnection
from odradek.sim.history import Place, Violation
from odradek.sim.workloads.reading import (
    EARLIEST,
    FETCH_VERSION,
    LATEST,
    PartitionReader,
    fetch_request,
    is_out_of_range,
    leadership_of,
    list_offset,
)
from odradek.sim.workloads.refusals import AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

_SESSION_GONE = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


@dataclass(slots=True)
class _FetchSession:
    session_id: int = 0
    session_epoch: int = 0
    # The position that the broker knows from the session, by partition.
    told: dict[Place, int] = field(default_factory=dict)


class Consumer(Worker):
    def __init__(self, name: str, errand: Errand, places: tuple[Place, ...], *, in_session: bool) -> None:
        super().__init__(name, errand)
        self.readers = {place: PartitionReader(place, 0) for place in places}
        self._in_session = in_session
        # One with each leader.
        self._fetch_sessions: dict[Address, _FetchSession] = {}

    async def work(self, session: Session) -> None:
        self._fetch_sessions.clear()
        led = await session.by_leader(list(self.readers))
        while not self.finished():
            for leader, places in led.items():
                await self._poll(session, leader, places, wait_ms=self.rng.choice((0, 100, 1000)) // len(led))
            if self.rng.random() < 0.3:
                await self.errand.pause()

    async def _poll(self, session: Session, leader: BrokerConnection, places: list[Place], *, wait_ms: int) -> None:
        fetches = self._fetch_sessions.setdefault(leader.address, _FetchSession())
        request = self._request(session, fetches, places, wait_ms)
        timeout_s = self.errand.request_timeout_s + wait_ms / 1000
        answer = await leader.ask(request, FETCH_VERSION, FetchResponse, timeout_s)
        if answer.error_code in _SESSION_GONE:
            del self._fetch_sessions[leader.address]
            return
        refuse(self.name, answer.error_code, "a fetch")
        if self._in_session:
            fetches.session_id = answer.session_id
            fetches.session_epoch = fetches.session_epoch + 1 if answer.session_id else 0
        for topic in answer.responses:
            for partition in topic.partitions:
                reader = self.readers[topic.topic, partition.partition_index]
                if is_out_of_range(partition):
                    await self._start_over(session, reader)
                    continue
                refuse(self.name, partition.error_code, f"a read of {reader.place}")
                records = reader.take(leadership_of(session, leader, reader.place), partition)
                self.history.polled(leader.incarnation, reader.place, records)

    def _request(self, session: Session, fetches: _FetchSession, places: list[Place], wait_ms: int) -> FetchRequest:
        partition_bytes = self.rng.choice((1, 500, 100_000))
        readers = [self.readers[place] for place in places]
        if fetches.session_id:
            readers = [reader for reader in readers if fetches.told.get(reader.place) != reader.position]
        fetches.told.update((reader.place, reader.position) for reader in readers)
        request = fetch_request(session, readers, wait_ms=wait_ms, partition_bytes=partition_bytes)
        request.session_id = fetches.session_id
        request.session_epoch = fetches.session_epoch if self._in_session else -1
        return request

    async def _start_over(self, session: Session, reader: PartitionReader) -> None:
        """The checkers decide whether this was allowed: they know what was read before."""
        earliest = await list_offset(session, reader.place, EARLIEST, self.errand.request_timeout_s)
        latest = await list_offset(session, reader.place, LATEST, self.errand.request_timeout_s)
        if earliest > latest:
            raise Violation(f"L5 {reader.place} begins at {earliest} and ends at {latest}")
        if reader.position < earliest or reader.position > latest:
            self.errand.note(f"{reader.place} has no {reader.position}, only {earliest} to {latest}")
            self.history.jumped(reader.place, reader.position, earliest, latest)
            reader.position = earliest if reader.position < earliest else latest


class FinalReader(Consumer):
    """Reads each partition from its beginning to its end, when all is quiet.

    `may_end_early`: records that were lost since may have compacted away all others before the end.
    """

    def __init__(
        self, name: str, errand: Errand, places: tuple[Place, ...], may_end_early: Collection[Place] = ()
    ) -> None:
        super().__init__(name, errand, places, in_session=False)
        self.content: dict[Place, dict[int, bytes]] = {place: {} for place in places}
        self.starts: dict[Place, int] = {}
        self._may_end_early = may_end_early
        self._done = False

    def finished(self) -> bool:
        return self._done

    async def work(self, session: Session) -> None:
        for place, reader in self.readers.items():
            reader.position = await list_offset(session, place, EARLIEST, self.errand.request_timeout_s)
            latest = await list_offset(session, place, LATEST, self.errand.request_timeout_s)
            self.starts[place] = reader.position
            found: dict[int, bytes] = {}
            while reader.position < latest:
                leader = await session.leader(place)
                request = fetch_request(session, [reader], wait_ms=0, partition_bytes=1 << 20)
                answer = await leader.ask(request, FETCH_VERSION, FetchResponse, self.errand.request_timeout_s)
                partition = answer.responses[0].partitions[0]
                if is_out_of_range(partition):
                    raise AskAgain("retention took what was to be read next")
                refuse(self.name, partition.error_code, f"the last read of {place}")
                position = reader.position
                records = reader.take(leadership_of(session, leader, place), partition)
                if reader.position == position:
                    if place in self._may_end_early:
                        break
                    raise Violation(f"J6 {place} ends at {latest} and answers nothing at {reader.position}")
                self.history.polled(leader.incarnation, place, records)
                found.update(records)
            self.content[place] = found
        self._done = True
