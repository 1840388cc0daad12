"""The cluster as `odradek txn` sees it. What it cannot answer ends the command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

from odradek.base.ids import TopicPartition
from odradek.cli.asking import R, ask
from odradek.cli.remote import (
    FAILED,
    REQUEST_TIMEOUT_S,
    TIMED_OUT,
    complain,
    fail,
    require_partitions,
    require_topics,
)
from odradek.client.transaction_requests import (
    Listed,
    Open,
    TransactionRefused,
    Transactions,
    by_leader,
    named,
)
from odradek.protocol.messages.p03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.p65_describe_transactions import TransactionState
from odradek.protocol.schema import Message

TRANSACTIONS_TOPIC = "__transaction_state"
NO_TRANSACTION = 'transactional id "{}" does not exist. List transactional ids with: odradek txn ls'


class Cluster:
    """The brokers and the leaders of all partitions, as one broker knew them when the command asked first."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._transactions = Transactions(self, within_s=REQUEST_TIMEOUT_S)

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

    def anyone(self, request: Message, response: type[R], *, newest: int | None = None) -> R:
        return ask(self.bootstrap, request, _version(request, newest), response)

    def at(self, broker: int, request: Message, response: type[R], *, newest: int | None = None) -> R:
        if broker not in self.addresses:
            fail(f"broker {broker} is not registered. Find the cause with: odradek cluster health")
        return ask(self.addresses[broker], request, _version(request, newest), response)

    def require_leader(self, partition: TopicPartition) -> int:
        """Ends the command without a leader."""
        require_topics([partition.topic], {each.topic for each in self.leaders})
        existing = {each.partition for each in self.leaders if each.topic == partition.topic}
        require_partitions(partition.topic, [partition.partition], existing)
        leader = self.leaders[partition]
        if leader not in self.addresses:
            fail(f"{named(partition)} has no leader. Find the cause with: odradek cluster health")
        return leader

    def listed(
        self, *, states: Sequence[str] = (), open_for_ms: int | None = None, producer_ids: Sequence[int] = ()
    ) -> list[Listed]:
        """From all brokers: each lists the transactional ids that it coordinates."""
        with _refusals_told():
            return [
                each
                for broker in sorted(self.addresses)
                for each in self._transactions.listed_by(
                    broker, states=states, open_for_ms=open_for_ms, producer_ids=producer_ids
                )
            ]

    def described(self, transactional_id: str) -> tuple[int, TransactionState] | None:
        """The coordinator and the state; None if the transactional id is unknown."""
        with _refusals_told():
            return self._transactions.described(transactional_id)

    def replace_producer(self, transactional_id: str, timeout_ms: int) -> None:
        with _refusals_told():
            self._transactions.replace_producer(transactional_id, timeout_ms)

    def hanging(self, found: Sequence[Open]) -> list[Open]:
        if found:
            self._require_coordinators()
        with _refusals_told():
            suspected = self._transactions.hanging(sorted(self.addresses), found)
        if not suspected:
            return []
        # A transaction that has ended meanwhile is unknown to its coordinator, too.
        still_open, complete = self.open_in({each.partition for each in suspected})
        if not complete:
            fail("a partition with an open transaction could not be searched again. Run the command again later")
        places = {each.place for each in still_open}
        return [each for each in suspected if each.place in places]

    def _require_coordinators(self) -> None:
        """Without one of them, transactions that it knows, and may commit later, would look like hanging ones."""
        for partition, leader in self.leaders.items():
            if partition.topic == TRANSACTIONS_TOPIC and leader not in self.addresses:
                fail(
                    f"{named(partition)} has no leader, so some transactions have no coordinator. "
                    "Wait until it has one, and find the cause with: odradek cluster health"
                )

    def open_in(self, partitions: Iterable[TopicPartition]) -> tuple[list[Open], bool]:
        """The open transactions, and whether all of the partitions could be searched."""
        found: list[Open] = []
        complete = True
        for leader, some in sorted(by_leader(self.leaders, partitions).items()):
            if leader in self.addresses:
                on_leader, unsearched = self._transactions.open_at(leader, some)
                found += on_leader
            else:
                unsearched = dict.fromkeys(some, "it has no leader")
            for partition, why in unsearched.items():
                complain(f"{named(partition)} was not searched: {why}")
                complete = False
        return found, complete

    def abort_in_partition(self, wrong: Open) -> None:
        with _refusals_told():
            self._transactions.abort_in_partition(self.require_leader(wrong.partition), wrong)


def _version(request: Message, newest: int | None) -> int:
    return request.VERSIONS[1] if newest is None else newest


@contextmanager
def _refusals_told() -> Iterator[None]:
    try:
        yield
    except TransactionRefused as refused:
        if refused.is_late:
            fail(f"{refused}: the coordinator did not finish in time", TIMED_OUT)
        fail(str(refused), FAILED)
