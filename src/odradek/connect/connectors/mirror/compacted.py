"""Reads the topics of a mirror, which have one partition, from the beginning to the end, and later what is new."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, TopicPartition

from odradek.client.configuring import client_logger
from odradek.client.records import ClientError
from odradek.connect.interface import RetriableError

READ_S = 60.0
TAKEN_MAX = 1_000
BEGINNING = -2


class CompactedTopic:
    def __init__(self, clients: Mapping[str, str], topic: str) -> None:
        """`clients` has the brokers, too."""
        self._topic = topic
        given = {"group.id": f"mirror-{topic}", "enable.auto.commit": False, "enable.partition.eof": True, **clients}
        self._consumer = Consumer(given, logger=client_logger())
        self._next = BEGINNING

    def news(self) -> Iterator[tuple[bytes, bytes]]:
        """The records since the last call. Tombstones are left out: these topics have none."""
        self._consumer.assign([TopicPartition(self._topic, 0, self._next)])
        deadline = time.monotonic() + READ_S
        while time.monotonic() < deadline:
            for message in self._consumer.consume(TAKEN_MAX, 0.1):
                error = message.error()
                if error is None:
                    self._next = message.offset() + 1
                    if message.key() is not None and message.value() is not None:
                        yield message.key(), message.value()
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (librdkafka's own code)
                    self._next = message.offset()
                    return
                elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return  # nothing was written yet
                elif not error.retriable() and error.code() >= 0:
                    raise ClientError(f"reading {self._topic}", error)
        raise RetriableError(f"the end of {self._topic} was not reached within {READ_S:g} s")

    def close(self) -> None:
        self._consumer.close()
