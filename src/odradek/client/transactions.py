"""Transactions: the records and offsets of a block become visible together, or not at all.

with Producer(transactional_id="copier") as producer, Consumer("orders", group="copier", auto_commit=False) as consumer:
    while True:
        with producer.transaction() as tx:
            for record in consumer.take(100):
                tx.send("copy", record.value, record.key)
            tx.send_offsets(consumer)

The block commits at its end, and aborts if it raises. Only one producer at a time may use a transactional id: a new one
fences the old one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

import confluent_kafka
from confluent_kafka import KafkaException

from odradek.client.kinds import K, V
from odradek.client.records import ClientError, Headers, Record, Stored

if TYPE_CHECKING:
    from odradek.client.async_consumer import AsyncConsumer
    from odradek.client.async_producer import AsyncProducer
    from odradek.client.consumer import Consumer
    from odradek.client.producer import Producer
    from odradek.client.reading import Progress

# librdkafka's own limit: the rest of transaction.timeout.ms.
NO_TIMEOUT = -1
ATTEMPTS = 10


class TransactionAborted(ClientError):
    """The transaction was aborted: none of its records and offsets count. The producer can begin another one."""


class ProducerFenced(ClientError):
    """Another producer uses the transactional id now. This one cannot go on: close it."""


class Transacting:
    """Begins and ends the transactions of one librdkafka producer. All methods may block."""

    def __init__(self, client: confluent_kafka.Producer, bootstrap: str, transactional_id: str | None) -> None:
        self._client = client
        self._what = f"the transaction of {transactional_id!r} on {bootstrap}"
        self._has_id = transactional_id is not None
        self._is_initialized = False
        self.is_open = False

    def begin(self) -> None:
        if not self._has_id:
            raise RuntimeError("this producer has no transactional_id: Producer(transactional_id='...')")
        if self.is_open:
            raise RuntimeError("this producer has an open transaction already")
        if not self._is_initialized:
            self._retried(self._client.init_transactions)
            self._is_initialized = True
        self._answered(self._client.begin_transaction)
        self.is_open = True

    def add_offsets(self, progress: Progress) -> None:
        offsets, group = progress
        if offsets:
            self._retried(lambda timeout: self._client.send_offsets_to_transaction(offsets, group, timeout))

    def commit(self) -> None:
        try:
            self._retried(self._client.commit_transaction)
        except TransactionAborted:
            self.abort()
            raise
        self.is_open = False

    def abort(self) -> None:
        self.is_open = False
        self._retried(self._client.abort_transaction)

    def _retried(self, call: Callable[[float], object]) -> None:
        """A call that was too slow may be repeated: it goes on where it was."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._answered(lambda: call(NO_TIMEOUT))
            except ClientError as failed:
                if not failed.error.retriable() or attempt == ATTEMPTS:
                    raise
            else:
                return

    def _answered(self, call: Callable[[], object]) -> None:
        try:
            call()
        except KafkaException as refused:
            error = refused.args[0]
            if error.name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"):
                raise ProducerFenced(self._what, error) from None
            if error.txn_requires_abort():
                raise TransactionAborted(self._what, error) from None
            raise ClientError(self._what, error) from None


class Transaction(Generic[K, V]):
    """Made by `Producer.transaction()`."""

    def __init__(self, producer: Producer[K, V], transacting: Transacting) -> None:
        self._producer = producer
        self._transacting = transacting

    def __enter__(self) -> Self:
        self._transacting.begin()
        return self

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
    ) -> Future[Stored]:
        """As `Producer.send`. If the record fails, the end of the block raises TransactionAborted."""
        sent = self._producer.send(topic, value, key, headers=headers, partition=partition, timestamp=timestamp)
        sent.add_done_callback(_is_seen)
        return sent

    def send_offsets(self, consumer: Consumer[Any, Any], *records: Record[Any, Any]) -> None:
        """Commits these records of the consumer's group with the transaction; without any, all that were returned."""
        self._transacting.add_offsets(consumer.progress(*records))

    def __exit__(self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if error is None:
            self._transacting.commit()
        elif self._transacting.is_open:
            self._transacting.abort()


class AsyncTransaction(Generic[K, V]):
    """Made by `AsyncProducer.transaction()`."""

    def __init__(self, producer: AsyncProducer[K, V], transacting: Transacting) -> None:
        self._producer = producer
        self._transacting = transacting

    async def __aenter__(self) -> Self:
        await _aside(self._transacting.begin)
        return self

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
    ) -> asyncio.Future[Stored]:
        """As `AsyncProducer.send`. If the record fails, the end of the block raises TransactionAborted."""
        sent = await self._producer.send(topic, value, key, headers=headers, partition=partition, timestamp=timestamp)
        sent.add_done_callback(_is_seen)
        return sent

    async def send_offsets(self, consumer: AsyncConsumer[Any, Any], *records: Record[Any, Any]) -> None:
        """Commits these records of the consumer's group with the transaction; without any, all that were returned."""
        progress = await consumer.progress(*records)
        await _aside(lambda: self._transacting.add_offsets(progress))

    async def __aexit__(
        self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is None:
            await _aside(self._transacting.commit)
        elif self._transacting.is_open:
            await _aside(self._transacting.abort)


async def _aside(call: Callable[[], None]) -> None:
    """In a thread. A task that is cancelled does not interrupt it: librdkafka ends the call all the same."""
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, call))


def _is_seen(_: object) -> None:
    """A failed record is reported by the transaction, so its future counts as read."""
