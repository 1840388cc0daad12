"""AsyncProducer: the same as Producer, for asyncio.

async with AsyncProducer(value=JSON) as producer:
    stored = await producer.send_and_wait("orders", {"amount": 3}, key="42")
    later = await producer.send("orders", {"amount": 4})    # waits only while the queue is full
    print(await later)
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self

from odradek.client.abandoned import when_abandoned
from odradek.client.configuring import Setting, addresses_of
from odradek.client.deliveries import AsyncDelivery
from odradek.client.kinds import K, V
from odradek.client.partitioning import Partitioner
from odradek.client.producer import Outbox
from odradek.client.records import Headers, SendFailed, Stored
from odradek.client.serdes import BYTES, Serde
from odradek.client.statistics import MetricName
from odradek.client.transactions import AsyncTransaction
from odradek.monitor.registry import Number

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message


FULL_QUEUE_WAIT_S = 0.01


class AsyncProducer(Generic[K, V]):
    """Must be created and used inside one running event loop."""

    def __init__(
        self,
        bootstrap: str | None = None,
        *,
        key: Serde[K] | type[K] = BYTES,
        value: Serde[V] | type[V] = BYTES,
        partitioner: Partitioner | None = None,
        **config: Setting,
    ) -> None:
        bootstrap = addresses_of(bootstrap)
        self._loop = asyncio.get_running_loop()
        self._outbox: Outbox[K, V] = Outbox(bootstrap, key, value, partitioner, config)
        self._deliveries = self._outbox.deliveries
        # Any polling thread appends, the event loop takes: one wake-up for many outcomes.
        self._told: deque[tuple[AsyncDelivery, Stored | SendFailed]] = deque()
        self._is_woken = False
        self._unclosed = when_abandoned(self, bootstrap, self._deliveries.end_and_log)

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
        """Waits while the queue is full. The future returns where the record was stored, or raises SendFailed."""
        self._require_open()
        delivery = AsyncDelivery(self._loop, self._deliveries.unseen)
        delivered = partial(self._delivered, delivery)
        await self._outbox.learn_partitions(topic, partition)
        while True:
            # Checked after each wait: after the end no thread would report the record's outcome.
            self._require_open()
            try:
                self._outbox.hand_over(topic, value, key, headers, partition, timestamp, delivered)
            except BufferError:
                await asyncio.sleep(FULL_QUEUE_WAIT_S)
            else:
                return delivery

    def _require_open(self) -> None:
        if not self._unclosed.alive:
            raise RuntimeError("this producer is closed")

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
    ) -> Stored:
        """Returns when the record is acknowledged."""
        return await (await self.send(topic, value, key, headers=headers, partition=partition, timestamp=timestamp))

    def transaction(self) -> AsyncTransaction[K, V]:
        """As Producer.transaction: `async with producer.transaction() as tx`."""
        return AsyncTransaction(self, self._outbox.transacting)

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109, as Producer's
        try:
            await asyncio.to_thread(self._deliveries.flush, timeout)
        finally:
            self._take()

    def metrics(self) -> dict[MetricName, Number]:
        """Metrics under the names of Java's client, from librdkafka's last report; empty before the first one."""
        return self._deliveries.statistics.metrics()

    async def close(self) -> None:
        """As Producer.close: raises Undelivered if records failed whose futures were not read."""
        if self._unclosed.detach():
            await self._end()
            self._deliveries.raise_unseen()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        elif self._unclosed.detach():
            await self._end()
            self._deliveries.log_unseen()

    async def _end(self) -> None:
        def log(_: object) -> None:
            self._take()
            self._deliveries.log_unseen()

        ending = self._loop.run_in_executor(None, self._deliveries.end)
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            # The producer still ends; its failures are logged, because there is no caller to raise to.
            ending.add_done_callback(log)
            raise
        self._take()

    def _delivered(self, delivery: AsyncDelivery, error: KafkaError | None, message: Message) -> None:
        """Runs in any polling thread."""
        outcome = self._deliveries.outcome(error, message)
        self._told.append((delivery, outcome))
        # Read after appending, reset before taking: an appended outcome is either taken or wakes the loop.
        if not self._is_woken or self._loop.is_closed():
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._take)
            except RuntimeError:  # the loop is closed: the futures can no longer be read
                self._count_failures()

    def _count_failures(self) -> None:
        with suppress(IndexError):  # several threads may poll and take
            while True:
                _, outcome = self._told.popleft()
                if isinstance(outcome, SendFailed):
                    self._deliveries.unseen.add(outcome)

    def _take(self) -> None:
        self._is_woken = False
        while self._told:
            delivery, outcome = self._told.popleft()
            delivery.settle(outcome)
