"""A user's partitioner: a function of key, value and number of partitions that is called before a record is sent."""

from __future__ import annotations

import time
from collections.abc import Callable

import confluent_kafka

from odradek.client.records import ClientError

Partitioner = Callable[[bytes | None, bytes | None, int], int]

# How long a topic's number of partitions is cached: a topic may grow.
COUNT_AGE_S = 60.0
REQUEST_TIMEOUT_S = 15.0


class PartitionCounts:
    def __init__(self, client: confluent_kafka.Producer) -> None:
        self._client = client
        self._known: dict[str, tuple[int, float]] = {}

    def are_known(self, topic: str) -> bool:
        known = self._known.get(topic)
        return known is not None and time.monotonic() - known[1] <= COUNT_AGE_S

    def of(self, topic: str) -> int:
        """The cached count, or that of the cluster."""
        if not self.are_known(topic):
            self._known[topic] = (self._ask(topic), time.monotonic())
        return self._known[topic][0]

    def _ask(self, topic: str) -> int:
        what = f"asking how many partitions {topic!r} has"
        try:
            told = self._client.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic]
        except confluent_kafka.KafkaException as refused:
            raise ClientError(what, refused.args[0]) from None
        if told.error is not None:
            raise ClientError(what, told.error)
        return len(told.partitions)
