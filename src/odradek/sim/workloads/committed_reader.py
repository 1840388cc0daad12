"""Readers with isolation.level=read_committed: drop aborted records as Kafka's clients do, and check every answer."""

from __future__ import annotations

from odradek.protocol.messages.p01_fetch import FetchRequest, FetchResponse, PartitionData
from odradek.sim.history import Place, Violation
from odradek.sim.transactions import TransactionHistory
from odradek.sim.workloads.copier import committed_offset
from odradek.sim.workloads.reading import (
    EARLIEST,
    FETCH_VERSION,
    LATEST,
    Leadership,
    PartitionReader,
    fetch_request,
    is_out_of_range,
    leadership_of,
    list_offset,
)
from odradek.sim.workloads.refusals import AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.worker import Errand, Worker

READ_COMMITTED = 1


class CommittedPartition(PartitionReader):
    def __init__(self, place: Place) -> None:
        super().__init__(place, 0)
        self._stable_of: Leadership | None = None
        self._stable = 0

    def take_committed(self, leadership: Leadership, answer: PartitionData) -> list[tuple[int, bytes]]:
        """The records at and after the position that are in no aborted transaction."""
        stable = answer.last_stable_offset
        if leadership == self._stable_of and stable < self._stable:
            raise Violation(f"T3 {self.place}: the last stable offset fell from {self._stable} to {stable}")
        self._stable_of, self._stable = leadership, stable
        batches = self._batches(answer)
        if batches and batches[-1].last_offset >= stable:
            raise Violation(f"T3 {self.place} answered {batches[-1].last_offset}, the last stable offset is {stable}")
        aborted = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
        dropped: set[int] = set()
        hidden: set[int] = set()
        for batch in batches:
            while aborted and aborted[0][0] <= batch.last_offset:
                dropped.add(aborted.pop(0)[1])
            if batch.is_control:
                if batch.commits() is False:
                    dropped.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in dropped:
                hidden.update(range(batch.base_offset, batch.last_offset + 1))
        return [record for record in self.take(leadership, answer) if record[0] not in hidden]


class CommittedReader(Worker):
    def __init__(self, name: str, errand: Errand, places: tuple[Place, ...], seen: TransactionHistory) -> None:
        super().__init__(name, errand)
        self._seen = seen
        self._readers = {place: CommittedPartition(place) for place in places}

    async def work(self, session: Session) -> None:
        while not self.finished():
            for place, reader in self._readers.items():
                await poll(self, session, place, reader, self._seen)
            await self.errand.pause()


async def poll(
    worker: Worker, session: Session, place: Place, reader: CommittedPartition, seen: TransactionHistory
) -> list[tuple[int, bytes]]:
    errand = worker.errand
    leader = await session.leader(place)
    request: FetchRequest = fetch_request(
        session, [reader], wait_ms=0, partition_bytes=errand.rng.choice((1, 500, 100_000))
    )
    request.isolation_level = READ_COMMITTED
    answer = await leader.ask(request, FETCH_VERSION, FetchResponse, errand.request_timeout_s)
    partition = answer.responses[0].partitions[0]
    if is_out_of_range(partition):
        raise AskAgain(f"a deposed leader does not have {reader.position} of {place} yet")
    refuse(worker.name, partition.error_code, f"a committed read of {place}")
    found = reader.take_committed(leadership_of(session, leader, place), partition)
    seen.answered(place, partition.last_stable_offset)
    seen.polled(place, found)
    return found


class CommittedFinalReader(Worker):
    """What is committed when all is quiet: every visible record, and the offset of the copiers."""

    def __init__(
        self, name: str, errand: Errand, places: tuple[Place, ...], seen: TransactionHistory, *, copies: bool
    ) -> None:
        super().__init__(name, errand)
        self.content: dict[Place, dict[int, bytes]] = {}
        self.copied_to = 0
        self._places = places
        self._seen = seen
        self._copies = copies
        self._done = False

    def finished(self) -> bool:
        return self._done

    async def work(self, session: Session) -> None:
        for place in self._places:
            reader = CommittedPartition(place)
            timeout_s = self.errand.request_timeout_s
            reader.position = await list_offset(session, place, EARLIEST, timeout_s)
            latest = await list_offset(session, place, LATEST, timeout_s, isolation_level=READ_COMMITTED)
            found: dict[int, bytes] = {}
            while reader.position < latest:
                position = reader.position
                found.update(await poll(self, session, place, reader, self._seen))
                if reader.position == position:
                    raise Violation(f"J6 {place} is stable up to {latest} and answers nothing at {position}")
            self.content[place] = found
        if self._copies:
            self.copied_to = await committed_offset(session, self.errand, self.name)
        self._done = True
