"""Reads one partition and checks every answer."""

from __future__ import annotations

from itertools import pairwise

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p01_fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from odradek.protocol.messages.p02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.sim.client import Address, BrokerConnection
from odradek.sim.history import Place, Violation
from odradek.sim.keyed import is_compacted
from odradek.sim.records import SeenBatch, whole_batches
from odradek.sim.workloads.refusals import refuse
from odradek.sim.workloads.session import Session

FETCH_VERSION = 12
LIST_VERSION = 7
EARLIEST, LATEST = -2, -1

# Address and incarnation of a node, and the leader epoch. A new leader may have a lower high watermark for a while.
Leadership = tuple[Address, int, int]


class PartitionReader:
    """The position of one reader in one partition, and the offsets it has been answered."""

    def __init__(self, place: Place, position: int) -> None:
        self.place = place
        self.position = position
        self._compacted = is_compacted(f"{place[0]}-{place[1]}")
        # The leader that answered with the offsets below.
        self._leadership: Leadership | None = None
        self.high_watermark = -1
        self.log_start_offset = -1

    def take(self, leadership: Leadership, answer: PartitionData) -> list[tuple[int, bytes]]:
        """The records at and after the position; moves the position behind them."""
        self._check_offsets(leadership, answer)
        batches = self._batches(answer)
        found = [record for batch in batches for record in batch.records() if record[0] >= self.position]
        if batches:
            # A batch of a compacted topic may have no records left.
            is_sparse = self._compacted or batches[0].is_control
            first = found[0][0] if found and not is_sparse else batches[0].last_offset
            if first < self.position or (first > self.position and not self._compacted):
                raise Violation(f"J4 {self.place} was asked for {self.position} and answered from {first}")
            self.position = batches[-1].last_offset + 1
        return found

    def _check_offsets(self, leadership: Leadership, answer: PartitionData) -> None:
        if not answer.log_start_offset <= answer.last_stable_offset <= answer.high_watermark:
            raise Violation(
                f"L5 {self.place}: log start {answer.log_start_offset}, last stable {answer.last_stable_offset}, "
                f"high watermark {answer.high_watermark}"
            )
        if leadership == self._leadership:
            if answer.high_watermark < self.high_watermark:
                raise Violation(f"L5 {self.place}: high watermark fell from {self.high_watermark}")
            if answer.log_start_offset < self.log_start_offset:
                raise Violation(f"L5 {self.place}: log start fell from {self.log_start_offset}")
        self._leadership = leadership
        self.high_watermark = answer.high_watermark
        self.log_start_offset = answer.log_start_offset

    def _batches(self, answer: PartitionData) -> list[SeenBatch]:
        data = answer.records or b""
        batches = list(whole_batches(data))
        if sum(len(batch.data) for batch in batches) != len(data):
            raise Violation(f"L3 {self.place} answered {len(data)} bytes that are not whole, undamaged batches")
        for batch, following in pairwise(batches):
            missing = following.base_offset - batch.last_offset - 1
            if missing < 0 or (missing > 0 and not self._compacted):
                raise Violation(f"L1 {self.place}: {following.base_offset} follows {batch.last_offset}")
        if batches and batches[-1].last_offset >= answer.high_watermark:
            raise Violation(f"L5 {self.place} answered {batches[-1].last_offset}, not yet committed")
        return batches


def leadership_of(session: Session, leader: BrokerConnection, place: Place) -> Leadership:
    return (leader.address, leader.incarnation, session.leader_epoch(place))


def fetch_request(
    session: Session, readers: list[PartitionReader], *, wait_ms: int, partition_bytes: int
) -> FetchRequest:
    """For the broker that leads all of them in this session."""
    topics: dict[str, FetchTopic] = {}
    for reader in readers:
        name, partition = reader.place
        topic = topics.setdefault(name, FetchTopic(topic=name))
        topic.partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=session.leader_epoch(reader.place),
                fetch_offset=reader.position,
                partition_max_bytes=partition_bytes,
            )
        )
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=list(topics.values()))


async def list_offset(
    session: Session, place: Place, timestamp: int, timeout_s: float, *, isolation_level: int = 0
) -> int:
    name, partition = place
    leader = await session.leader(place)
    asked = ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=session.leader_epoch(place), timestamp=timestamp
    )
    answer = await leader.ask(
        ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation_level, topics=[ListOffsetsTopic(name=name, partitions=[asked])]
        ),
        LIST_VERSION,
        ListOffsetsResponse,
        timeout_s,
    )
    found = answer.topics[0].partitions[0]
    refuse("ListOffsets", found.error_code, f"the offset of {place} at {timestamp}")
    return found.offset


def is_out_of_range(answer: PartitionData) -> bool:
    return answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
