"""Asks the coordinator of a transaction whether partitions are part of it, or lets them join it.

A leader asks before it appends the first batch of a transaction. Otherwise a delayed batch could begin a transaction
after its end: no marker would come, and read_committed readers would wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import cast

from odradek.base.errors import ErrorCode, error_code
from odradek.base.ids import NO_BROKER, BrokerId, TopicPartition
from odradek.base.ports import Clock, Spawner
from odradek.coordinator.ports import AskBroker
from odradek.coordinator.transaction.transaction import ProducerIdentity
from odradek.metadata.configs.broker import BrokerConfig
from odradek.protocol.messages.p24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.server.tally import Tally
from odradek.server.transactions.gathering import Gathering, Part

VERSION = 5
TIMEOUT_MS = 10_000

Codes = dict[TopicPartition, ErrorCode]


class TransactionPartitions:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        coordinator: Callable[[str], BrokerId],
        ask_broker: AskBroker,
        clock: Clock,
        spawner: Spawner,
        tally: Tally,
    ) -> None:
        """`coordinator`: the broker that coordinates a transactional id, NO_BROKER if that is unknown."""
        # Of Produce requests that wait for an answer.
        self.waiting_bytes = 0
        self._config = config
        self._coordinator = coordinator
        self._clock = clock
        self._tally = tally
        self._gathering: Gathering[AddPartitionsToTxnTransaction] = Gathering(
            ask_broker=ask_broker,
            spawner=spawner,
            request=lambda transactions: AddPartitionsToTxnRequest(transactions=transactions),
            version=VERSION,
            timeout_ms=TIMEOUT_MS,
        )

    async def verify(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition]
    ) -> Codes:
        """Whether they are part of the producer's open transaction."""
        return await self._ask(_transaction(transactional_id, producer, partitions, verify_only=True))

    async def join(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition]
    ) -> Codes:
        """Makes them part of it: with transaction.version 2, clients leave that to the leaders."""
        return await self._ask(_transaction(transactional_id, producer, partitions, verify_only=False))

    async def _ask(self, transaction: AddPartitionsToTxnTransaction) -> Codes:
        began_ns = self._clock.monotonic_ns()
        codes = await self._ask_until_idle(transaction)
        self._tally.verification_times.observe(self._clock.monotonic_ns() - began_ns)
        self._tally.verification_failures.count += sum(code is not ErrorCode.NONE for code in codes.values())
        return codes

    async def _ask_until_idle(self, transaction: AddPartitionsToTxnTransaction) -> Codes:
        """Asks again while the previous transaction of the producer is being completed."""
        give_up_ms = self._clock.monotonic_ms() + self._config.add_partitions_to_txn_retry_backoff_max_ms
        while True:
            codes = await self._ask_once(transaction)
            is_busy = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            if not is_busy or self._clock.monotonic_ms() >= give_up_ms:
                return codes
            await asyncio.sleep(self._config.add_partitions_to_txn_retry_backoff_ms / 1000)

    async def _ask_once(self, transaction: AddPartitionsToTxnTransaction) -> Codes:
        coordinator = self._coordinator(transaction.transactional_id)
        if coordinator == NO_BROKER:
            return _all(transaction, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return _codes(transaction, await self._gathering.ask(coordinator, [transaction]))


def _transaction(
    transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition], *, verify_only: bool
) -> AddPartitionsToTxnTransaction:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic)).partitions.append(partition)
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verify_only,
        topics=list(topics.values()),
    )


def _codes(transaction: AddPartitionsToTxnTransaction, part: Part) -> Codes:
    """A partition that the answer does not name counts as not answered."""
    codes = _all(transaction, ErrorCode.NETWORK_EXCEPTION)
    answer = cast("AddPartitionsToTxnResponse | None", part.answer)
    if answer is None:
        return codes
    if answer.error_code:
        return _all(transaction, error_code(answer.error_code))
    for result in answer.results_by_transaction[part.begin : part.begin + 1]:
        for topic in result.topic_results:
            for partition in topic.results_by_partition:
                key = TopicPartition(topic.name, partition.partition_index)
                codes[key] = error_code(partition.partition_error_code)
    return codes


def _all(transaction: AddPartitionsToTxnTransaction, code: ErrorCode) -> Codes:
    return {TopicPartition(topic.name, index): code for topic in transaction.topics for index in topic.partitions}
