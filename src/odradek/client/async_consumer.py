"""AsyncConsumer: the same as Consumer, for asyncio.

async with AsyncConsumer("orders", group="billing", value=Order) as consumer:
    async for record in consumer:
        await bill(record.value)

Its own thread polls librdkafka for many records at a time. Prefetched records of a revoked partition are dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from odradek.client.abandoned import Unclosed, when_abandoned
from odradek.client.bad_records import BadRecords, OnBad
from odradek.client.configuring import Setting, addresses_of
from odradek.client.kinds import K, V
from odradek.client.reading import Progress, Reading, Start, Topic, require_topics
from odradek.client.records import BadRecord, Record
from odradek.client.serdes import BYTES, Serde
from odradek.client.statistics import MetricName
from odradek.monitor.registry import Number

R = TypeVar("R")

POLL_S = 0.25
RECORDS_AT_ONCE = 500
# A group removes a member that does not poll for five minutes (max.poll.interval.ms).
ASKED_AGAIN_AFTER_S = 10.0


class _Desk(Generic[K, V]):
    """The polling thread and its Reading, which is opened on first use. Holds no reference to the consumer."""

    def __init__(self, open_reading: Callable[[], Reading[K, V]]) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="odradek-consumer")
        self.reading: Reading[K, V] | None = None
        self._open_reading = open_reading

    def opened(self) -> Reading[K, V]:
        """Runs in the thread: if the awaiting task is cancelled, the opened Reading is kept."""
        if self.reading is None:
            self.reading = self._open_reading()
        return self.reading

    def abandon(self) -> None:
        self.thread.shutdown()
        if self.reading is not None:
            self.reading.abandon()


class AsyncConsumer(Generic[K, V]):
    def __init__(
        self,
        *topics: Topic,
        bootstrap: str | None = None,
        group: str | None = None,
        start: Start = "earliest",
        key: Serde[K] | type[K] = BYTES,
        value: Serde[V] | type[V] = BYTES,
        stop_at_end: bool = False,
        auto_commit: bool = True,
        on_bad: OnBad = "fail",
        **config: Setting,
    ) -> None:
        self._bad_records = BadRecords(on_bad, may_await=True)
        require_topics(topics)  # fails before the first await
        bootstrap = addresses_of(bootstrap)
        self._desk: _Desk[K, V] = _Desk(
            lambda: Reading(
                topics,
                bootstrap,
                group=group,
                start=start,
                key=key,
                value=value,
                stop_at_end=stop_at_end,
                auto_commit=auto_commit,
                config=config,
            )
        )
        self._bootstrap = bootstrap
        self._asked_at = 0.0
        self._unclosed: Unclosed | None = None

    async def _open(self) -> Reading[K, V]:
        if self._unclosed is None:
            self._unclosed = when_abandoned(self, self._bootstrap, self._desk.abandon)
        return await self._aside(self._desk.opened) if self._desk.reading is None else self._desk.reading

    async def poll(self, timeout: float | None = None) -> Record[K, V] | None:  # noqa: ASYNC109, as Consumer's
        """The next record; None after the timeout, or with `stop_at_end` at the end of all partitions."""
        reading = await self._open()
        reading.done_with_last()
        ends_at = None if timeout is None else time.monotonic() + timeout
        while True:
            if time.monotonic() - self._asked_at > ASKED_AGAIN_AFTER_S or not reading.messages:
                if not reading.messages and reading.is_at_end:
                    return None
                await self._ask(reading, ends_at)
            if reading.messages and (record := await self._taken(reading)) is not None:
                return record
            if ends_at is not None and time.monotonic() >= ends_at:
                return None

    async def _taken(self, reading: Reading[K, V]) -> Record[K, V] | None:
        try:
            return reading.taken(reading.messages.popleft())
        except BadRecord as bad:
            if self._bad_records.are_raised:
                raise
            with reading.finishing_last():
                await self._bad_records.meet_async(bad)
        return None

    async def _ask(self, reading: Reading[K, V], ends_at: float | None) -> None:
        patience = 0.0 if reading.messages else POLL_S
        if ends_at is not None:
            patience = max(min(patience, ends_at - time.monotonic()), 0)
        await self._aside(lambda: self._fetch(reading, patience))
        self._asked_at = time.monotonic()

    @staticmethod
    def _fetch(reading: Reading[K, V], patience: float) -> None:
        """Runs in the thread: if the awaiting task is cancelled, the messages are kept for the next poll."""
        first = reading.client.poll(patience)
        if first is None:
            return
        reading.messages.append(first)
        # Takes only what has arrived already: waiting for more would delay the first record. Rebalance callbacks run
        # inside this call and drop revoked records, before its messages are appended.
        messages = reading.client.consume(RECORDS_AT_ONCE, 0)
        reading.messages.extend(messages)

    # Not a generator: a generator ends at its first exception, and the loop could not read the records after it.
    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[K, V]:
        record = await self.poll()
        if record is None:
            raise StopAsyncIteration
        return record

    @property
    def skipped(self) -> int:
        """The number of records that could not be decoded and that `on_bad` skipped."""
        return self._bad_records.skipped

    async def commit(self, *records: Record[Any, Any]) -> None:
        """Commits these records."""
        if not records:
            raise ValueError("commit() needs the records as arguments: later records may have been fetched already")
        reading = await self._open()
        await self._aside(lambda: reading.commit(records))

    async def take(self, count: int, timeout: float = 1.0) -> list[Record[K, V]]:  # noqa: ASYNC109, as Consumer's
        """As Consumer.take."""
        ends_at = time.monotonic() + timeout
        records: list[Record[K, V]] = []
        while len(records) < count:
            record = await self.poll(max(ends_at - time.monotonic(), 0))
            if record is None:
                break
            records.append(record)
        return records

    async def progress(self, *records: Record[Any, Any]) -> Progress:
        reading = await self._open()
        return await self._aside(lambda: reading.progress(records))

    async def rewind(self) -> None:
        """As Consumer.rewind."""
        reading = await self._open()
        await self._aside(reading.rewind)

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        reading = await self._open()
        await self._aside(lambda: reading.seek(topic, partition, offset))

    def metrics(self) -> dict[MetricName, Number]:
        """Metrics under the names of Java's client, from librdkafka's last report; empty before the first one."""
        return {} if self._desk.reading is None else self._desk.reading.statistics.metrics()

    async def close(self) -> None:
        """Commits the records that were returned, and leaves the group."""
        await self._close(clean=True)

    async def _close(self, *, clean: bool) -> None:
        if self._unclosed is not None:
            self._unclosed.detach()
        reading = self._desk.reading
        if reading is not None:
            await self._aside(lambda: reading.close(clean=clean))
        self._desk.thread.shutdown(wait=False)

    async def _aside(self, call: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._desk.thread, call)

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        await self._close(clean=error is None)
