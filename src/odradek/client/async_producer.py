"""AsyncProducer: the same as Producer, for asyncio.

async with AsyncProducer(value=JSON) as producer:
    stored = await producer.send_and_wait("orders", {"amount": 3}, key="42")
    later = await producer.send("orders", {"amount": 4})    # waits only while the queue is full
    print(await later)
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self

from odradek.client.configuring import BOOTSTRAP, Setting
from odradek.client.kinds import K, V
from odradek.client.partitioning import Partitioner
from odradek.client.producer import Outbox, Unsent, flush_or_give_up, serving_deliveries, stored_or_failed
from odradek.client.records import Headers, SendFailed, Stored
from odradek.client.serdes import BYTES, Serde

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message


FULL_QUEUE_WAIT_S = 0.01


class AsyncProducer(Generic[K, V]):
    """To be made and used inside one running event loop."""

    def __init__(
        self,
        bootstrap: str = BOOTSTRAP,
        *,
        key: Serde[K] | type[K] = BYTES,
        value: Serde[V] | type[V] = BYTES,
        partitioner: Partitioner | None = None,
        **config: Setting,
    ) -> None:
        self._outbox: Outbox[K, V] = Outbox(bootstrap, key, value, partitioner, config)
        self._client = self._outbox.client
        self._loop = asyncio.get_running_loop()
        # Told by whichever thread polls, taken by the loop: one wake-up for many.
        self._told: deque[tuple[asyncio.Future[Stored], Stored | SendFailed]] = deque()
        self._is_woken = False
        self._stopped = threading.Event()
        self._thread = serving_deliveries(self._client, self._stopped)

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
        """Waits while the queue is full; the future has the place of the record, or raises SendFailed."""
        if self._stopped.is_set():
            raise RuntimeError("this producer is closed")
        future: asyncio.Future[Stored] = self._loop.create_future()
        delivered = partial(self._delivered, future)
        await self._outbox.learn_partitions(topic, partition)
        while True:
            try:
                self._outbox.hand_over(topic, value, key, headers, partition, timestamp, delivered)
            except BufferError:
                await asyncio.sleep(FULL_QUEUE_WAIT_S)
            else:
                return future

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
        """Returns when it is acknowledged."""
        return await (await self.send(topic, value, key, headers=headers, partition=partition, timestamp=timestamp))

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109, as Producer's
        left = await asyncio.to_thread(self._client.flush, -1 if timeout is None else timeout)
        self._take()
        if left:
            raise Unsent(left, timeout or 0)

    async def close(self) -> None:
        if not self._stopped.is_set():
            await asyncio.to_thread(flush_or_give_up, self._client)
            self._stopped.set()
            await asyncio.to_thread(self._thread.join)
            self._take()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        await self.close()

    def _delivered(self, future: asyncio.Future[Stored], error: KafkaError | None, message: Message) -> None:
        """In whichever thread polls."""
        self._told.append((future, stored_or_failed(error, message)))
        # Looked at after appending, taken back before taking: what is appended is taken or wakes.
        if not self._is_woken and not self._loop.is_closed():
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._is_woken = False
        while self._told:
            future, outcome = self._told.popleft()
            if future.done():
                continue
            if isinstance(outcome, SendFailed):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
