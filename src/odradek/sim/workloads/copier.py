"""Consume, transform, produce: copies records, and commits the position of its group in the same transaction."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p01_fetch import FetchResponse
from odradek.protocol.messages.p09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from odradek.protocol.messages.p25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.messages.p28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from odradek.sim.history import Violation
from odradek.sim.transaction_knobs import COPIERS, INPUT
from odradek.sim.workloads.reading import FETCH_VERSION, PartitionReader, fetch_request, leadership_of
from odradek.sim.workloads.refusals import AskAgain, refuse
from odradek.sim.workloads.session import Session
from odradek.sim.workloads.transactional import TransactionalPlan, TransactionalProducer, Work
from odradek.sim.workloads.worker import Errand

_OFFSET_FETCH_VERSION = 7
_ADD_OFFSETS_VERSION = 3
_OLD_COMMIT, _NEW_COMMIT = 4, 5
_RECORDS_MAX = 5


class Copier(TransactionalProducer):
    """All copiers share a transactional id: a new one fences the others before it reads the group's offset."""

    def __init__(self, name: str, errand: Errand, plan: TransactionalPlan) -> None:
        super().__init__(name, errand, plan)
        self._attempts = 0

    async def begin(self, session: Session) -> Work | None:
        position = await committed_offset(session, self.errand, self.name)
        values = await self._read(session, position)
        if not values:
            await self.errand.pause()
            if self.rng.random() < 0.2:
                # There may be nothing to copy any more.
                self._made += 1
            return None
        work = self.new_work(commits=self.rng.random() < 0.8)
        self._attempts += 1
        work.offset = work.seen.consumed = (position, position + len(values))
        for offset in range(*work.offset):
            place = self.plan.places[offset % len(self.plan.places)]
            value = f"{self.name}/{self._attempts}/copy/{offset}".encode()
            work.to_send.append(self.new_batch(work, place, [value]))
            if place not in work.to_join:
                work.to_join.append(place)
        self.maybe_stray(work)
        return work

    async def _read(self, session: Session, position: int) -> list[bytes]:
        leader = await session.leader(INPUT)
        reader = PartitionReader(INPUT, position)
        request = fetch_request(session, [reader], wait_ms=0, partition_bytes=2_000)
        answer = await leader.ask(request, FETCH_VERSION, FetchResponse, self.errand.request_timeout_s)
        partition = answer.responses[0].partitions[0]
        if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise AskAgain("a deposed leader does not have the input yet")
        refuse(self.name, partition.error_code, "its input")
        found = reader.take(leadership_of(session, leader, INPUT), partition)
        return [value for _, value in found[: self.rng.randint(1, _RECORDS_MAX)]]

    async def send_offset(self, session: Session, work: Work) -> None:
        if work.offset is None or work.offset_is_sent:
            return
        if not self.plan.is_new and not work.offset_is_joined:
            coordinator = await session.transaction_coordinator(self.plan.transactional_id)
            joined = await coordinator.ask(
                AddOffsetsToTxnRequest(
                    transactional_id=self.plan.transactional_id,
                    producer_id=self.producer[0],
                    producer_epoch=self.producer[1],
                    group_id=COPIERS,
                ),
                _ADD_OFFSETS_VERSION,
                AddOffsetsToTxnResponse,
                self.errand.request_timeout_s,
            )
            self.heed(work, ErrorCode(joined.error_code), "the offsets of its group")
            work.offset_is_joined = True
        replaced = self.is_replaced()
        topic, partition = INPUT
        offset = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=work.offset[1])
        coordinator = await session.coordinator(COPIERS)
        answer = await coordinator.ask(
            TxnOffsetCommitRequest(
                transactional_id=self.plan.transactional_id,
                group_id=COPIERS,
                producer_id=self.producer[0],
                producer_epoch=self.producer[1],
                topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[offset])],
            ),
            _NEW_COMMIT if self.plan.is_new else _OLD_COMMIT,
            TxnOffsetCommitResponse,
            self.errand.request_timeout_s,
        )
        self.heed(work, ErrorCode(answer.topics[0].partitions[0].error_code), "a commit of its offset")
        if replaced:
            raise Violation(f"T4 {self.name} as {self.producer} committed an offset after it had been replaced")
        work.offset_is_sent = True


async def committed_offset(session: Session, errand: Errand, name: str) -> int:
    """What the copiers have committed in all transactions that ended; 0 at first.

    A coordinator that was deposed and does not know it yet may answer with an old offset. Such an answer is not used.
    """
    topic, partition = INPUT
    coordinator = await session.coordinator(COPIERS)
    in_charge = errand.in_charge(coordinator.address, COPIERS)
    answer = await coordinator.ask(
        OffsetFetchRequest(
            group_id=COPIERS,
            topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])],
            require_stable=True,
        ),
        _OFFSET_FETCH_VERSION,
        OffsetFetchResponse,
        errand.request_timeout_s,
    )
    refuse(name, answer.error_code, "the offset of the copiers")
    found = answer.topics[0].partitions[0]
    refuse(name, found.error_code, "the offset of the copiers")
    if in_charge is None or in_charge != errand.in_charge(coordinator.address, COPIERS):
        raise AskAgain("the coordinator was deposed")
    return max(0, found.committed_offset)


def copied_offset(value: bytes) -> int | None:
    """The input offset of a copy; None for another record."""
    rest, _, number = value.rpartition(b"/")
    return int(number) if rest.endswith(b"/copy") else None
