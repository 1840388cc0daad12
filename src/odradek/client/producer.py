"""Producer: records out, futures back.

with Producer(value=JSON) as producer:
    stored = producer.send("orders", {"amount": 3}, key="42").result()

Records are sent in batches by a thread of librdkafka; `send` returns at once, and waits only while the queue is full.
Idempotent unless configured otherwise: a retry neither doubles nor reorders. The same key goes where Java puts it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

import confluent_kafka

from odradek.client.configuring import BOOTSTRAP, Setting, client_config
from odradek.client.kinds import K, V
from odradek.client.partitioning import PartitionCounts, Partitioner
from odradek.client.records import Headers, SendFailed, Stored, time_of
from odradek.client.serdes import BYTES, Serde, SerdeLike, serde_of

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message


logger = logging.getLogger("odradek.client")

DEFAULTS: dict[str, Setting] = {"partitioner": "murmur2_random"}
POLL_S = 0.1
FULL_QUEUE_POLL_S = 0.05
AT_EXIT_S = 30.0
PURGE_S = 5.0
ANY_PARTITION = -1

Delivered = Callable[["KafkaError | None", "Message"], None]


class Unsent(TimeoutError):
    """What was sent is neither acknowledged nor given up yet."""

    def __init__(self, count: int, timeout_s: float) -> None:
        self.count = count
        super().__init__(f"{count} records are not acknowledged after {timeout_s:g} s; their futures will tell")


class Outbox(Generic[K, V]):
    """Encodes, chooses the partition, and hands over to librdkafka. Shared by both flavours of producers."""

    def __init__(
        self,
        bootstrap: str,
        key: SerdeLike,
        value: SerdeLike,
        partitioner: Partitioner | None,
        config: dict[str, Setting],
    ) -> None:
        self.key, self.value = serde_of(key), serde_of(value)
        self.client = confluent_kafka.Producer(client_config(bootstrap, _with_idempotence(config), config))
        self._partitioner = partitioner
        self._counts = PartitionCounts(self.client)

    def hand_over(
        self,
        topic: str,
        value: V | None,
        key: K | None,
        headers: Headers | None,
        partition: int | None,
        timestamp: datetime | int | None,
        delivered: Delivered,
    ) -> None:
        """BufferError: the queue is full."""
        raw_key, raw_value = self.key.to_bytes(key), self.value.to_bytes(value)
        if partition is None and self._partitioner is not None:
            partition = self._chosen(self._partitioner, topic, raw_key, raw_value)
        options: dict[str, Any] = {} if timestamp is None else {"timestamp": _ms(timestamp)}
        try:
            self.client.produce(
                topic,
                raw_value,
                raw_key,
                ANY_PARTITION if partition is None else partition,
                headers=None if headers is None else _pairs(headers),
                on_delivery=delivered,
                **options,
            )
        except confluent_kafka.KafkaException as refused:
            raise SendFailed(f"sending to {topic!r}", refused.args[0]) from None

    async def learn_partitions(self, topic: str, partition: int | None) -> None:
        """So that choosing a partition does not wait for a broker on the event loop."""
        if partition is None and self._partitioner is not None and not self._counts.are_known(topic):
            await asyncio.to_thread(self._counts.of, topic)

    def _chosen(self, partitioner: Partitioner, topic: str, key: bytes | None, value: bytes | None) -> int:
        count = self._counts.of(topic)
        chosen = partitioner(key, value, count)
        if not 0 <= chosen < count:
            raise ValueError(f"the partitioner chose {chosen}, and {topic!r} has partitions 0 to {count - 1}")
        return chosen


def _pairs(headers: Headers) -> list[tuple[str, bytes | str | None]]:
    return headers if isinstance(headers, list) else list(headers.items())


def _with_idempotence(users: dict[str, Setting]) -> dict[str, Setting]:
    weaker = {"acks", "request_required_acks", "request.required.acks"} & users.keys()
    wants_less = any(str(users[name]) not in ("all", "-1") for name in weaker)
    return DEFAULTS if wants_less else {**DEFAULTS, "enable.idempotence": True}


def _ms(timestamp: datetime | int) -> int:
    return timestamp if isinstance(timestamp, int) else int(timestamp.timestamp() * 1000)


def stored_or_failed(error: KafkaError | None, message: Message) -> Stored | SendFailed:
    topic, partition = message.topic() or "", message.partition()
    if error is not None:
        return SendFailed(f"sending to {topic!r}", error)
    offset = message.offset()
    return Stored(topic, -1 if partition is None else partition, -1 if offset is None else offset, time_of(message))


def _settle(future: Future[Stored], error: KafkaError | None, message: Message) -> None:
    outcome = stored_or_failed(error, message)
    if isinstance(outcome, SendFailed):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class Producer(Generic[K, V]):
    """`key` and `value` say how things become bytes (BYTES, TEXT, JSON, a type, a Serde); what else, is config."""

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
        stopped = threading.Event()
        thread = serving_deliveries(self._client, stopped)
        # Also at the end of the interpreter: what was sent is not forgotten because nobody closed.
        self._end = weakref.finalize(self, _stop, self._client, stopped, thread, os.getpid())

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
        """The future has the place of the record, or raises SendFailed. A value of None is a tombstone."""
        if not self._end.alive:
            raise RuntimeError("this producer is closed")
        future: Future[Stored] = Future()
        future.set_running_or_notify_cancel()
        delivered = partial(_settle, future)
        while True:
            try:
                self._outbox.hand_over(topic, value, key, headers, partition, timestamp, delivered)
            except BufferError:
                self._client.poll(FULL_QUEUE_POLL_S)
            else:
                return future

    def flush(self, timeout: float | None = None) -> None:
        """Until all that was sent is acknowledged or has failed. Unsent when that takes longer."""
        left = self._client.flush(-1 if timeout is None else timeout)
        if left:
            raise Unsent(left, timeout or 0)

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._client)

    def close(self) -> None:
        """Waits for what was sent; what is not acknowledged within half a minute has failed."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()


def serving_deliveries(client: confluent_kafka.Producer, stopped: threading.Event) -> threading.Thread:
    """A thread in which delivery reports are called, until `stopped`."""
    thread = threading.Thread(target=_serve_deliveries, args=(client, stopped), name="odradek-producer", daemon=True)
    thread.start()
    return thread


def _serve_deliveries(client: confluent_kafka.Producer, stopped: threading.Event) -> None:
    while not stopped.is_set():
        client.poll(POLL_S)


def _stop(client: confluent_kafka.Producer, stopped: threading.Event, thread: threading.Thread, pid: int) -> None:
    if pid != os.getpid():
        return  # a fork has the queue, and none of the threads that would empty it
    if thread is threading.current_thread():
        # The callback of a future: what it is called for is not over before it returns.
        threading.Thread(target=_stop, args=(client, stopped, thread, pid), name="odradek-producer-end").start()
        return
    flush_or_give_up(client)
    stopped.set()
    thread.join()


def flush_or_give_up(client: confluent_kafka.Producer) -> None:
    """Afterwards every future tells: those of records that nobody acknowledged in time raise SendFailed."""
    left = client.flush(AT_EXIT_S)
    if left:
        logger.warning("%d records were not acknowledged within %g s and are given up", left, AT_EXIT_S)
        client.purge()
        client.flush(PURGE_S)
