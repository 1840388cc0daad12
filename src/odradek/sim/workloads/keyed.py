"""Clients of a compacted topic: some write a few keys over and over, one reads from the beginning again and again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from odradek.protocol.messages.p01_fetch import FetchResponse
from odradek.sim import keyed, records
from odradek.sim.history import Place, Violation
from odradek.sim.keyed import Deletions, check_compacted
from odradek.sim.workloads.producer import Producer, ProducerPlan, _Batch
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

_DELETED_SHARE = 0.25
_TIME_SPREAD_MS = 1000
_HASTE = 5


class KeyedProducer(Producer):
    """Pauses less than others, but sends one batch per partition at a time: compaction keeps only the last batch."""

    def __init__(self, name: str, errand: Errand, plan: ProducerPlan, keys: int) -> None:
        super().__init__(name, replace(errand, pause_mean_s=errand.pause_mean_s / _HASTE), plan)
        self._keys = keys

    def _may_follow(self, batch: _Batch, flying: list[_Batch]) -> bool:
        return all(each.place != batch.place for each in flying)

    def _make_value(self) -> bytes:
        key = b"k%d" % self.rng.randrange(self._keys)
        time = self.errand.clock.wall_ms() - self.rng.randrange(_TIME_SPREAD_MS)
        return keyed.tell(key, super()._make_value(), time, deletes=self.rng.random() < _DELETED_SHARE)

    def _encode(self, values: list[bytes], producer_id: int, producer_epoch: int, sequence: int) -> bytes:
        return records.encode_keyed(values, producer_id, producer_epoch, sequence)


@dataclass(slots=True, kw_only=True)
class _Pass:
    """One pass, from the beginning to a log end seen while reading: compacted records lie before that."""

    reader: PartitionReader
    promised: dict[int, bytes]
    content: dict[int, bytes] = field(default_factory=dict)
    start: int
    end: int = 0


class Rereader(Worker):
    """L6: a full read ends with the latest record of each key that was known when it began, or with a later one.

    It continues over changes of leader; each leader has compacted on its own. `deletions`: None where even acknowledged
    records may be lost.
    """

    def __init__(self, name: str, errand: Errand, places: tuple[Place, ...], deletions: Deletions | None) -> None:
        super().__init__(name, errand)
        self._places = places
        self._deletions = deletions
        self._pass: _Pass | None = None
        # By partition: the latest record of each key that a client has seen, and how many sightings that covers.
        self._latest: dict[Place, dict[bytes, tuple[int, bytes]]] = {place: {} for place in places}
        self._looked_at: dict[Place, int] = dict.fromkeys(places, 0)

    async def work(self, session: Session) -> None:
        while not self.finished():
            if self._pass is None:
                self._pass = await self._begin(session, self.rng.choice(self._places))
            else:
                await self._read_on(session, self._pass)
            if self.rng.random() < 0.3:
                await self.errand.pause()

    async def _begin(self, session: Session, place: Place) -> _Pass:
        promised = dict(self._known(place).values())
        earliest = await list_offset(session, place, EARLIEST, self.errand.request_timeout_s)
        return _Pass(reader=PartitionReader(place, earliest), promised=promised, start=earliest)

    def _known(self, place: Place) -> dict[bytes, tuple[int, bytes]]:
        latest = self._latest[place]
        sightings = self.history.sightings.get(place, [])
        for sighting in sightings[self._looked_at[place] :]:
            key = keyed.key_of(sighting.value)
            latest[key] = max(latest.get(key, (-1, b"")), (sighting.offset, sighting.value))
        self._looked_at[place] = len(sightings)
        return latest

    async def _read_on(self, session: Session, reading: _Pass) -> None:
        reader = reading.reader
        leader = await session.leader(reader.place)
        partition_bytes = self.rng.choice((1, 300, 100_000))
        request = fetch_request(session, [reader], wait_ms=100, partition_bytes=partition_bytes)
        answer = await leader.ask(request, FETCH_VERSION, FetchResponse, self.errand.request_timeout_s + 0.1)
        refuse(self.name, answer.error_code, "a fetch")
        partition = answer.responses[0].partitions[0]
        if is_out_of_range(partition):
            self._pass = None  # retention or a deletion removed the position, or the log came back shorter
            return
        refuse(self.name, partition.error_code, f"a read of {reader.place}")
        found = reader.take(leadership_of(session, leader, reader.place), partition)
        self.history.polled(leader.incarnation, reader.place, found)
        reading.content.update(found)
        reading.start = max(reading.start, partition.log_start_offset)
        reading.end = max(reading.end, partition.high_watermark)
        if reader.position >= reading.end:
            self._pass = None
            if self._deletions is not None:
                # A crash may bring back what was asked to be deleted.
                start = max(reading.start, self.history.deleted_below.get(reader.place, 0))
                self._check(reading, self._deletions, start)

    def _check(self, reading: _Pass, deletions: Deletions, start: int) -> None:
        place = reading.reader.place
        promised = {offset: told for offset, told in reading.promised.items() if offset < reading.end}
        where = f"{place}, read again,"
        try:
            check_compacted(where, promised, reading.content, deletions, start=start)
        except Violation:
            # A deletion written during the read may be removed again, and with it the promised records.
            deleted_at = keyed.last_deletions(self.history, place)
            check_compacted(where, promised, reading.content, deletions, start=start, deleted_at=deleted_at)
