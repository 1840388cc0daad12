"""Producer: sends records and returns futures.

with Producer(value=JSON) as producer:
    stored = producer.send("orders", {"amount": 3}, key="42").result()

Records are sent in batches by a thread of librdkafka; `send` returns at once, and waits only while the queue is full.
Idempotent by default: a retry neither duplicates nor reorders records. A key maps to the same partition as in Java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

import confluent_kafka

from odradek.client.abandoned import when_abandoned
from odradek.client.configuring import Setting, addresses_of, client_config
from odradek.client.deliveries import Deliveries, Delivery
from odradek.client.kinds import K, V
from odradek.client.partitioning import PartitionCounts, Partitioner
from odradek.client.records import Headers, SendFailed, Stored
from odradek.client.serdes import BYTES, Serde, SerdeLike, serde_of
from odradek.client.statistics import MetricName
from odradek.client.transactions import Transacting, Transaction
from odradek.monitor.registry import Number

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message


DEFAULTS: dict[str, Setting] = {"partitioner": "murmur2_random"}
FULL_QUEUE_POLL_S = 0.05
ANY_PARTITION = -1
# A datetime ends with the year 9999.
TIMESTAMP_MS_MAX = 253_402_300_799_999

Delivered = Callable[["KafkaError | None", "Message"], None]


class Outbox(Generic[K, V]):
    """Encodes a record, chooses its partition, and passes it to librdkafka. Shared by Producer and AsyncProducer."""

    def __init__(
        self,
        bootstrap: str,
        key: SerdeLike,
        value: SerdeLike,
        partitioner: Partitioner | None,
        config: dict[str, Setting],
    ) -> None:
        self.key, self.value = serde_of(key), serde_of(value)
        self._bootstrap = bootstrap
        self._partitioner = partitioner
        settings = client_config(bootstrap, _with_idempotence(config), config)
        self.deliveries = Deliveries(bootstrap, settings)
        transactional_id = settings.get("transactional.id")
        self.transacting = Transacting(
            self.deliveries.client, bootstrap, None if transactional_id is None else str(transactional_id)
        )
        self._counts = PartitionCounts(self.deliveries.client)

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
        """Raises BufferError when the queue is full."""
        raw_key, raw_value = self.key.to_bytes(key), self.value.to_bytes(value)
        if partition is None and self._partitioner is not None:
            partition = self._chosen(self._partitioner, topic, raw_key, raw_value)
        options: dict[str, Any] = {} if timestamp is None else {"timestamp": _ms(timestamp)}
        try:
            self.deliveries.client.produce(
                topic,
                raw_value,
                raw_key,
                ANY_PARTITION if partition is None else partition,
                headers=None if headers is None else _pairs(headers),
                on_delivery=delivered,
                **options,
            )
        except confluent_kafka.KafkaException as refused:
            raise SendFailed(f"sending to {topic!r} on {self._bootstrap}", refused.args[0]) from None

    async def learn_partitions(self, topic: str, partition: int | None) -> None:
        """Fetches the partition count in a thread: the partitioner must not wait for a broker on the event loop."""
        if partition is None and self._partitioner is not None and not self._counts.are_known(topic):
            await asyncio.to_thread(self._counts.of, topic)

    def _chosen(self, partitioner: Partitioner, topic: str, key: bytes | None, value: bytes | None) -> int:
        count = self._counts.of(topic)
        chosen = partitioner(key, value, count)
        if not 0 <= chosen < count:
            raise ValueError(f"the partitioner chose {chosen}, but {topic!r} has partitions 0 to {count - 1}")
        return chosen


def _pairs(headers: Headers) -> list[tuple[str, bytes | str | None]]:
    return headers if isinstance(headers, list) else list(headers.items())


def _with_idempotence(users: dict[str, Setting]) -> dict[str, Setting]:
    weaker = {"acks", "request_required_acks", "request.required.acks"} & users.keys()
    wants_less = any(str(users[name]) not in ("all", "-1") for name in weaker)
    return DEFAULTS if wants_less else {**DEFAULTS, "enable.idempotence": True}


def _ms(timestamp: datetime | int) -> int:
    ms = timestamp if isinstance(timestamp, int) else int(timestamp.timestamp() * 1000)
    if not 0 <= ms <= TIMESTAMP_MS_MAX:
        raise ValueError(
            f"the timestamp {timestamp} is not between 1970 and the year 9999; give a datetime, or milliseconds since "
            "1970 (not microseconds)"
        )
    return ms


class Producer(Generic[K, V]):
    """Sends records. `key` and `value` set the encoding (BYTES, TEXT, JSON, a type, a Serde); the rest is config."""

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
        self._outbox: Outbox[K, V] = Outbox(bootstrap, key, value, partitioner, config)
        self._deliveries = self._outbox.deliveries
        # Also runs when the interpreter exits: sent records are delivered even if the producer was not closed.
        self._unclosed = when_abandoned(self, bootstrap, self._deliveries.end_and_log)

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
        """The future returns where the record was stored, or raises SendFailed. A value of None is a tombstone."""
        delivery = Delivery(self._deliveries.unseen)
        delivered = partial(_settle, self._deliveries, delivery)
        while True:
            # Checked on each attempt: after the end no thread would report the record's outcome.
            if not self._unclosed.alive:
                raise RuntimeError("this producer is closed")
            try:
                self._outbox.hand_over(topic, value, key, headers, partition, timestamp, delivered)
            except BufferError:
                self._deliveries.client.poll(FULL_QUEUE_POLL_S)
            else:
                return delivery

    def transaction(self) -> Transaction[K, V]:
        """A block of records and offsets that count together. The producer needs a `transactional_id`.

        The first one registers the producer at the cluster, which fences older producers with the same id.
        """
        return Transaction(self, self._outbox.transacting)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until all sent records are acknowledged or have failed. Raises Unsent after the timeout."""
        self._deliveries.flush(timeout)

    def metrics(self) -> dict[MetricName, Number]:
        """Metrics under the names of Java's client, from librdkafka's last report; empty before the first one."""
        return self._deliveries.statistics.metrics()

    def __len__(self) -> int:
        """The number of records in flight."""
        return len(self._deliveries.client)

    def close(self) -> None:
        """Waits for sent records, at most 30 seconds; about 6 seconds if no broker ever answered.

        Records that are not acknowledged by then have failed. Raises Undelivered if records failed whose futures were
        not read.
        """
        if self._unclosed.detach():
            self._deliveries.end()
            self._deliveries.raise_unseen()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if error is None:
            self.close()
        elif self._unclosed.detach():
            self._deliveries.end_and_log()


def _settle(deliveries: Deliveries, delivery: Delivery, error: KafkaError | None, message: Message) -> None:
    delivery.settle(deliveries.outcome(error, message))
