"""Timestamps of the first record at or after an offset, with one small fetch per partition."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, TopicPartition

from odradek.client.records import ClientError

Place = tuple[str, int]  # topic, partition
NOTHING: Mapping[str, str] = MappingProxyType({})
FETCH_BYTES = 1024
REQUEST_TIMEOUT_S = 10.0


class FirstRecords:
    """A consumer without a group that reads single records. `config` takes librdkafka's names."""

    def __init__(
        self, bootstrap: str, config: Mapping[str, str] = NOTHING, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        self._bootstrap, self._timeout_s = bootstrap, timeout_s
        self._consumer = Consumer(
            {
                "log_level": "0",
                **config,
                "bootstrap.servers": bootstrap,
                "group.id": "odradek-first-records",  # librdkafka needs one; it is not joined, and nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",  # if retention has deleted the offset: the first record
                "fetch.message.max.bytes": FETCH_BYTES,  # the broker sends a whole batch even if it is larger
                "queued.min.messages": 1,
                "fetch.wait.max.ms": 50,
            }
        )

    def timestamps_ms(self, offsets: Mapping[Place, int]) -> dict[Place, int]:
        """Omits partitions without a record at or after the offset, and records without a timestamp."""
        if not offsets:
            return {}
        try:
            places = [TopicPartition(topic, index, offset) for (topic, index), offset in offsets.items()]
            self._consumer.assign(places)
            self._consumer.resume(places)  # librdkafka remembers the partitions that the last call paused
            return self._read(set(offsets))
        except KafkaException as refused:
            raise ClientError(f"reading single records on {self._bootstrap}", refused.args[0]) from None
        finally:
            self._consumer.unassign()

    def _read(self, waiting: set[Place]) -> dict[Place, int]:
        found: dict[Place, int] = {}
        deadline = time.monotonic() + self._timeout_s
        while waiting:
            message = self._consumer.poll(max(deadline - time.monotonic(), 0))
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 (its own name for it)
            error, place = message.error(), (message.topic(), message.partition())
            if place not in waiting:  # also reports of unreachable brokers: librdkafka retries
                continue
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                raise KafkaException(error)
            waiting.remove(place)
            self._consumer.pause([TopicPartition(*place)])
            kind, at_ms = message.timestamp()
            if error is None and kind != TIMESTAMP_NOT_AVAILABLE:
                found[place] = at_ms
        return found

    def close(self) -> None:
        self._consumer.close()
