"""Requests about transactions: to coordinators, and to the leaders of partitions. librdkafka has no calls for them.

A transaction hangs if it is open in a partition, and no coordinator knows that this partition is part of it: no
coordinator will end it. It stops read_committed consumers of its partition, and compaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.client.wire import R, name_of
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.messages.p27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.messages.p61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from odradek.protocol.messages.p65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from odradek.protocol.messages.p66_list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.protocol.schema import Message

IDLE = ("Empty", "CompleteCommit", "CompleteAbort")
# Kafka's default of transaction.max.timeout.ms: until then the coordinator itself aborts a transaction.
OLD_MS = 15 * 60_000
WITHIN_S = 15.0
ASK_AGAIN_S = 0.1
# A broker that does not know yet that it coordinates a transaction lists it no more than the coordinator before.
COORDINATORS_SETTLE_S = 1.0
TRANSACTION_KEY = 1
# A retry may succeed.
_LATER = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class TransactionRefused(Exception):
    """A broker refused a request. `is_late`: a later one may succeed."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: {name_of(code)}")
        self.is_late = code in _LATER


class Brokers(Protocol):
    """Sends requests. `newest` limits their version."""

    def anyone(self, request: Message, response: type[R], *, newest: int | None = None) -> R: ...

    def at(self, broker: int, request: Message, response: type[R], *, newest: int | None = None) -> R: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    transactional_id: str
    state: str
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A transaction that is open in a partition, as the leader of the partition knows it."""

    partition: TopicPartition
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_ms: int

    @property
    def place(self) -> tuple[TopicPartition, int]:
        """Stays the same while the transaction is open."""
        return self.partition, self.start_offset


class Transactions:
    """Raises TransactionRefused, and what `brokers` raises."""

    def __init__(self, brokers: Brokers, *, within_s: float = WITHIN_S) -> None:
        self._brokers = brokers
        self._within_s = within_s

    # Coordinators

    def listed_by(
        self,
        broker: int,
        *,
        states: Sequence[str] = (),
        open_for_ms: int | None = None,
        producer_ids: Sequence[int] = (),
    ) -> list[Listed]:
        """The transactional ids that this broker coordinates."""
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if open_for_ms is None else open_for_ms,
        )
        newest = 0 if open_for_ms is None else 1
        for _ in self._tries():
            response = self._brokers.at(broker, request, ListTransactionsResponse, newest=newest)
            if response.error_code not in _LATER:
                break
        if response.error_code != ErrorCode.NONE:
            raise TransactionRefused(f"broker {broker} does not list its transactions", response.error_code)
        return [
            Listed(
                transactional_id=each.transactional_id,
                state=each.transaction_state,
                producer_id=each.producer_id,
                coordinator=broker,
            )
            for each in response.transaction_states
        ]

    def described(self, transactional_id: str) -> tuple[int, TransactionState] | None:
        """The coordinator and the state; None if the transactional id is unknown."""
        for _ in self._tries():
            coordinator = self._coordinator(transactional_id)
            [state] = self.described_by(coordinator, [transactional_id])
            if state.error_code not in _LATER:
                break
        if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        if state.error_code != ErrorCode.NONE:
            raise TransactionRefused(transactional_id, state.error_code)
        return coordinator, state

    def described_by(self, coordinator: int, transactional_ids: Sequence[str]) -> list[TransactionState]:
        """Each with an error code of its own."""
        request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
        return self._brokers.at(coordinator, request, DescribeTransactionsResponse, newest=0).transaction_states

    def replace_producer(self, transactional_id: str, timeout_ms: int) -> None:
        """Takes the next epoch: the coordinator aborts the open transaction, and its producer is fenced."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        for _ in self._tries():
            coordinator = self._coordinator(transactional_id)
            code = self._brokers.at(coordinator, request, InitProducerIdResponse, newest=2).error_code
            if code not in _LATER:
                break
        if code != ErrorCode.NONE:
            raise TransactionRefused(transactional_id, code)

    def _coordinator(self, transactional_id: str) -> int:
        request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[transactional_id])
        for _ in self._tries():
            [found] = self._brokers.anyone(request, FindCoordinatorResponse, newest=4).coordinators
            if found.error_code not in _LATER:
                break
        if found.error_code != ErrorCode.NONE:
            raise TransactionRefused(transactional_id, found.error_code)
        return int(found.node_id)

    def _tries(self) -> Iterator[None]:
        """At least one; pauses between them, and ends after `within_s`."""
        deadline_s = time.monotonic() + self._within_s
        yield
        while time.monotonic() < deadline_s:
            time.sleep(ASK_AGAIN_S)
            yield

    # Leaders of partitions

    def open_at(
        self, leader: int, partitions: Iterable[TopicPartition]
    ) -> tuple[list[Open], dict[TopicPartition, str]]:
        """The transactions that are open in partitions of one leader, and why some partitions were not searched."""
        topics: dict[str, list[int]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
        )
        found: list[Open] = []
        unsearched: dict[TopicPartition, str] = {}
        for topic in self._brokers.at(leader, request, DescribeProducersResponse, newest=0).topics:
            for answer in topic.partitions:
                partition = TopicPartition(topic.name, answer.partition_index)
                if answer.error_code != ErrorCode.NONE:
                    unsearched[partition] = name_of(answer.error_code)
                found += [
                    Open(
                        partition=partition,
                        start_offset=producer.current_txn_start_offset,
                        producer_id=producer.producer_id,
                        producer_epoch=producer.producer_epoch,
                        coordinator_epoch=producer.coordinator_epoch,
                        last_ms=producer.last_timestamp,
                    )
                    for producer in answer.active_producers
                    if producer.current_txn_start_offset >= 0
                ]
        return found, unsearched

    def abort_in_partition(self, leader: int, wrong: Open) -> None:
        """Writes an abort marker, without the coordinator. Only for a transaction that hangs."""
        topic = WritableTxnMarkerTopic(name=wrong.partition.topic, partition_indexes=[wrong.partition.partition])
        marker = WritableTxnMarker(
            producer_id=wrong.producer_id,
            producer_epoch=wrong.producer_epoch,
            transaction_result=False,
            topics=[topic],
            coordinator_epoch=max(wrong.coordinator_epoch, 0),
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        response = self._brokers.at(leader, request, WriteTxnMarkersResponse, newest=1)
        [code] = [each.error_code for one in response.markers for told in one.topics for each in told.partitions]
        if code != ErrorCode.NONE:
            raise TransactionRefused(f"{named(wrong.partition)}: the transaction was not aborted", code)

    # Both

    def owners(self, brokers: Iterable[int], found: Sequence[Open]) -> dict[int, Listed]:
        """By producer id, the transactional ids of open transactions, where a coordinator knows them."""
        ids = sorted({each.producer_id for each in found})
        if not ids:
            return {}
        return {each.producer_id: each for broker in brokers for each in self.listed_by(broker, producer_ids=ids)}

    def hanging(self, brokers: Sequence[int], found: Sequence[Open]) -> list[Open]:
        """Those that no coordinator knows, or whose coordinator does not know that this partition is part of them.

        Asks twice: between two coordinators, a transaction is unknown to both for a moment.
        """
        suspected = self._unknown(brokers, found)
        if suspected:
            time.sleep(COORDINATORS_SETTLE_S)
            suspected = self._unknown(brokers, suspected)
        return suspected

    def _unknown(self, brokers: Iterable[int], found: Sequence[Open]) -> list[Open]:
        known: set[tuple[int, TopicPartition]] = set()
        for producer_id, owner in self.owners(brokers, found).items():
            described = self.described(owner.transactional_id)
            if described is not None:
                known |= {(producer_id, partition) for partition in partitions_of(described[1])}
        return unknown_to(known, found)


def partitions_of(state: TransactionState) -> list[TopicPartition]:
    return [TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions]


def nothing_to_abort(state: str) -> str | None:
    """Why a transaction in this state cannot be aborted."""
    if state in IDLE:
        return f"has no open transaction: its state is {state}"
    return f"has a transaction that is ending already: its state is {state}" if state.startswith("Prepare") else None


def unknown_to(known: set[tuple[int, TopicPartition]], found: Iterable[Open]) -> list[Open]:
    """The rule of a hanging transaction. `known` are producers with a partition that their coordinator knows."""
    return [each for each in found if (each.producer_id, each.partition) not in known]


def by_leader(
    leaders: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        found.setdefault(leaders[partition], []).append(partition)
    return found


def named(partition: TopicPartition) -> str:
    return f"{partition.topic}:{partition.partition}"
