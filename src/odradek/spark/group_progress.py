"""What a query has finished, committed to a consumer group for the eyes of every lag tool.

For show only: the query itself resumes from its checkpoint. So a commit never waits and never fails a query; one that
went wrong is sent again with the next.
"""

from __future__ import annotations

import logging
import time

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from odradek.spark.clients import Config
from odradek.spark.offsets import Offsets

log = logging.getLogger(__name__)

RETRY_S = 1.0


class GroupProgress:
    def __init__(self, config: Config) -> None:
        self._group = config["group.id"]
        self._consumer = Consumer({**config, "on_commit": self._on_commit})
        self._sent: Offsets | None = None
        self._unanswered = 0
        self._not_before_s = 0.0

    def commit(self, offsets: Offsets) -> None:
        """`offsets` are finished; the answer of the cluster is looked at in the next call."""
        self._consumer.poll(0)
        if offsets == self._sent or not offsets or time.monotonic() < self._not_before_s:
            return
        self._sent = offsets
        places = [KafkaPartition(place.topic, place.partition, offset) for place, offset in offsets.items()]
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
            self._unanswered += 1
        except KafkaException as problem:
            self._failed(problem)

    def flush(self, timeout_s: float) -> None:
        """Wait for the answers: nobody will call again."""
        deadline_s = time.monotonic() + timeout_s
        while self._unanswered and time.monotonic() < deadline_s:
            self._consumer.poll(0.05)

    def close(self) -> None:
        self._consumer.close()

    def _on_commit(self, problem: KafkaError | None, places: list[KafkaPartition]) -> None:
        self._unanswered -= 1
        for error in [problem, *(place.error for place in places)]:
            if error is not None:
                self._failed(error)
                return

    def _failed(self, problem: object) -> None:
        self._sent = None
        self._not_before_s = time.monotonic() + RETRY_S
        log.warning("the progress of group %s was not committed, it will be sent again: %s", self._group, problem)
