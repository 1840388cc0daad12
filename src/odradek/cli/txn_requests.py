"""Requests about transactions: to coordinators, and to the leaders of partitions. librdkafka has no calls for them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.cli.asking import ask, name_of
from odradek.cli.remote import NOT_FOUND, REQUEST_TIMEOUT_S, TIMED_OUT, complain, fail, require_topics
from odradek.protocol.messages.p03_metadata import MetadataRequest, MetadataResponse
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

NO_TRANSACTION = 'transactional id "{}" does not exist. List transactional ids with: odradek txn ls'
TRANSACTION_KEY = 1
ASK_AGAIN_S = 0.1
# A retry may succeed.
_LATER = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


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


class Cluster:
    """The brokers and the leaders of all partitions, as one broker knew them when the command asked first."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @cached_property
    def _metadata(self) -> MetadataResponse:
        return ask(self.bootstrap, MetadataRequest(topics=None), 12, MetadataResponse)

    @cached_property
    def addresses(self) -> Mapping[int, str]:
        return {broker.node_id: f"{broker.host}:{broker.port}" for broker in self._metadata.brokers}

    @cached_property
    def leaders(self) -> Mapping[TopicPartition, int]:
        return {
            TopicPartition(topic.name or "", partition.partition_index): partition.leader_id
            for topic in self._metadata.topics
            for partition in topic.partitions
        }

    def leader(self, partition: TopicPartition) -> str:
        """The address of the leader. Ends the command without one."""
        require_topics([partition.topic], {each.topic for each in self.leaders})
        if partition not in self.leaders:
            fail(f"topic {partition.topic} has no partition {partition.partition}", NOT_FOUND)
        address = self.addresses.get(self.leaders[partition])
        if address is None:
            fail(f"{named(partition)} has no leader. Find the cause with: odradek cluster health")
        return address

    # --- coordinators

    def listed(
        self, *, states: Sequence[str] = (), open_for_ms: int | None = None, producer_ids: Sequence[int] = ()
    ) -> list[Listed]:
        """From all brokers: each lists the transactional ids that it coordinates."""
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if open_for_ms is None else open_for_ms,
        )
        version = 0 if open_for_ms is None else 1
        return [
            Listed(
                transactional_id=each.transactional_id,
                state=each.transaction_state,
                producer_id=each.producer_id,
                coordinator=broker_id,
            )
            for broker_id, address in sorted(self.addresses.items())
            for each in self._listed_by(broker_id, address, request, version).transaction_states
        ]

    def _listed_by(
        self, broker_id: int, address: str, request: ListTransactionsRequest, version: int
    ) -> ListTransactionsResponse:
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            response = ask(address, request, version, ListTransactionsResponse)
            if response.error_code == ErrorCode.NONE:
                return response
            if response.error_code not in _LATER or time.monotonic() >= deadline:
                fail(f"broker {broker_id} does not list its transactions: {name_of(response.error_code)}")
            time.sleep(ASK_AGAIN_S)

    def described(self, transactional_id: str) -> tuple[int, TransactionState] | None:
        """The coordinator and the state; None if the transactional id is unknown."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            coordinator, address = self._coordinator(transactional_id, deadline)
            request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
            [state] = ask(address, request, 0, DescribeTransactionsResponse).transaction_states
            if state.error_code == ErrorCode.NONE:
                return coordinator, state
            if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            _wait_or_fail(state.error_code, transactional_id, deadline)

    def _coordinator(self, transactional_id: str, deadline: float) -> tuple[int, str]:
        request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[transactional_id])
        while True:
            [found] = ask(self.bootstrap, request, 4, FindCoordinatorResponse).coordinators
            if found.error_code == ErrorCode.NONE:
                return found.node_id, f"{found.host}:{found.port}"
            _wait_or_fail(found.error_code, transactional_id, deadline)

    def replace_producer(self, transactional_id: str, timeout_ms: int) -> None:
        """Takes the next epoch: the coordinator aborts the open transaction, and its producer is fenced."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        while True:
            _, address = self._coordinator(transactional_id, deadline)
            code = ask(address, request, 2, InitProducerIdResponse).error_code
            if code == ErrorCode.NONE:
                return
            _wait_or_fail(code, transactional_id, deadline)

    # --- leaders of partitions

    def open_in(self, partitions: Iterable[TopicPartition]) -> tuple[list[Open], bool]:
        """The open transactions, and whether all of the partitions could be searched."""
        by_leader: dict[int, dict[str, list[int]]] = {}
        complete = True
        for partition in partitions:
            leader = self.leaders[partition]
            if leader not in self.addresses:
                complain(f"{named(partition)} was not searched: it has no leader")
                complete = False
            else:
                by_leader.setdefault(leader, {}).setdefault(partition.topic, []).append(partition.partition)
        found: list[Open] = []
        for leader, topics in sorted(by_leader.items()):
            some, all_searched = _open_on(self.addresses[leader], topics)
            found += some
            complete &= all_searched
        return found, complete

    def abort_in_partition(self, wrong: Open) -> None:
        """Writes an abort marker, without the coordinator."""
        topic = WritableTxnMarkerTopic(name=wrong.partition.topic, partition_indexes=[wrong.partition.partition])
        marker = WritableTxnMarker(
            producer_id=wrong.producer_id,
            producer_epoch=wrong.producer_epoch,
            transaction_result=False,
            topics=[topic],
            coordinator_epoch=max(wrong.coordinator_epoch, 0),
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        response = ask(self.leader(wrong.partition), request, 1, WriteTxnMarkersResponse)
        [code] = [each.error_code for one in response.markers for told in one.topics for each in told.partitions]
        if code != ErrorCode.NONE:
            fail(f"{named(wrong.partition)}: the transaction was not aborted: {name_of(code)}")


def named(partition: TopicPartition) -> str:
    return f"{partition.topic}:{partition.partition}"


def _open_on(address: str, topics: Mapping[str, Sequence[int]]) -> tuple[list[Open], bool]:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=list(indexes)) for name, indexes in topics.items()]
    )
    found: list[Open] = []
    complete = True
    for topic in ask(address, request, 0, DescribeProducersResponse).topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code != ErrorCode.NONE:
                complain(f"{named(partition)} was not searched: {name_of(answer.error_code)}")
                complete = False
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
    return found, complete


def _wait_or_fail(code: int, transactional_id: str, deadline: float) -> None:
    if code not in _LATER:
        fail(f"{transactional_id}: {name_of(code)}")
    if time.monotonic() >= deadline:
        fail(f"{transactional_id}: the coordinator did not finish in time: {name_of(code)}", TIMED_OUT)
    time.sleep(ASK_AGAIN_S)
