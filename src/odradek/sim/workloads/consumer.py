"""A consumer without a group: reads everything, in full fetches or in a fetch session."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p01_fetch import FetchRequest, FetchResponse
from odradek.sim.client import BrokerConnection
from odradek.sim.history import Place, Violation
from odradek.sim.workloads.reading import (
    EARLIEST,
    FETCH_VERSION,
    LATEST,
    PartitionReader,
    fetch_request,
    is_out_of_range,
    list_offset,
)
from odradek.sim.workloads.worker import AskAgain, Errand, Worker, refuse

_SESSION_GONE = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


class Consumer(Worker):
    def __init__(self, name: str, errand: Errand, places: tuple[Place, ...], *, in_session: bool) -> None:
        super().__init__(name, errand)
        self.readers = {place: PartitionReader(place, 0) for place in places}
        self._in_session = in_session
        self._session_id = 0
        self._session_epoch = 0
        # The position that the broker knows from the session, by partition.
        self._told: dict[Place, int] = {}

    async def work(self, connection: BrokerConnection) -> None:
        self._forget_session()
        while not self.finished():
            await self.poll(connection, wait_ms=self.rng.choice((0, 100, 1000)))
            if self.rng.random() < 0.3:
                await self.errand.pause()

    async def poll(self, connection: BrokerConnection, *, wait_ms: int) -> int:
        """One fetch; how many records came."""
        request = self._request(wait_ms)
        timeout_s = self.errand.request_timeout_s + wait_ms / 1000
        answer = await connection.ask(request, FETCH_VERSION, FetchResponse, timeout_s)
        if answer.error_code in _SESSION_GONE:
            self._forget_session()
            return 0
        refuse(self.name, answer.error_code, "a fetch")
        if self._in_session:
            self._session_id = answer.session_id
            self._session_epoch = self._session_epoch + 1 if answer.session_id else 0
        polled = 0
        for topic in answer.responses:
            for partition in topic.partitions:
                reader = self.readers[topic.topic, partition.partition_index]
                if is_out_of_range(partition):
                    await self._start_over(connection, reader)
                    continue
                refuse(self.name, partition.error_code, f"a read of {reader.place}")
                records = reader.take(connection.incarnation, partition)
                self.history.polled(connection.incarnation, reader.place, records)
                polled += len(records)
        return polled

    def _request(self, wait_ms: int) -> FetchRequest:
        partition_bytes = self.rng.choice((1, 500, 100_000))
        readers = list(self.readers.values())
        if self._session_id:
            readers = [reader for reader in readers if self._told.get(reader.place) != reader.position]
        self._told.update((reader.place, reader.position) for reader in readers)
        request = fetch_request(readers, wait_ms=wait_ms, partition_bytes=partition_bytes)
        request.session_id = self._session_id
        request.session_epoch = self._session_epoch if self._in_session else -1
        return request

    def _forget_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._told.clear()

    async def _start_over(self, connection: BrokerConnection, reader: PartitionReader) -> None:
        """Whether this was allowed to happen is for the checkers to say: they know what was read before."""
        earliest = await list_offset(connection, reader.place, EARLIEST, self.errand.request_timeout_s)
        latest = await list_offset(connection, reader.place, LATEST, self.errand.request_timeout_s)
        if earliest > latest:
            raise Violation(f"L5 {reader.place} begins at {earliest} and ends at {latest}")
        if reader.position < earliest or reader.position > latest:
            self.errand.note(f"{reader.place} has no {reader.position}, only {earliest} to {latest}")
            self.history.jumped(reader.place, reader.position, earliest, latest)
            reader.position = earliest if reader.position < earliest else latest


class FinalReader(Consumer):
    """Reads each partition from its beginning to its end, when all is quiet."""

    def __init__(self, name: str, errand: Errand, places: tuple[Place, ...]) -> None:
        super().__init__(name, errand, places, in_session=False)
        self.content: dict[Place, dict[int, bytes]] = {place: {} for place in places}
        self.starts: dict[Place, int] = {}
        self._done = False

    def finished(self) -> bool:
        return self._done

    async def work(self, connection: BrokerConnection) -> None:
        for place, reader in self.readers.items():
            reader.position = await list_offset(connection, place, EARLIEST, self.errand.request_timeout_s)
            latest = await list_offset(connection, place, LATEST, self.errand.request_timeout_s)
            self.starts[place] = reader.position
            found: dict[int, bytes] = {}
            while reader.position < latest:
                request = fetch_request([reader], wait_ms=0, partition_bytes=1 << 20)
                answer = await connection.ask(request, FETCH_VERSION, FetchResponse, self.errand.request_timeout_s)
                partition = answer.responses[0].partitions[0]
                if is_out_of_range(partition):
                    raise AskAgain("retention took what was to be read next")
                refuse(self.name, partition.error_code, f"the last read of {place}")
                records = reader.take(connection.incarnation, partition)
                if not records:
                    raise Violation(f"J6 {place} ends at {latest} and answers nothing at {reader.position}")
                self.history.polled(connection.incarnation, place, records)
                found.update(records)
            self.content[place] = found
        self._done = True
