"""What a query has finished, committed to a consumer group for the eyes of every lag tool.

For show only: the query itself resumes from its checkpoint. So a commit never waits and never fails a query; one that
went wrong is sent again. At most one is on its way: two could overtake each other.
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
        # It is never a member; yet this is how long closing waits for a coordinator that is gone.
        patience = {"session.timeout.ms": "6000"}
        self._consumer = Consumer({**config, **patience, "on_commit": self._on_commit})
        self._finished: Offsets = {}
        # Committed, or on its way.
        self._sent: Offsets = {}
        self._on_its_way = False
        self._not_before_s = 0.0

    def commit(self, finished: Offsets) -> None:
        """Sent now, or with a later call when the answer to an earlier one is still awaited."""
        self._finished = finished
        self._send(wait_s=0)

    def flush(self, timeout_s: float) -> None:
        """Nobody will call again: wait until all that is finished is committed."""
        deadline_s = time.monotonic() + timeout_s
        while (self._on_its_way or self._sent != self._finished) and time.monotonic() < deadline_s:
            self._send(wait_s=0.05)

    def close(self) -> None:
        self._consumer.close()

    def _send(self, wait_s: float) -> None:
        self._consumer.poll(wait_s)  # brings the answer
        if self._on_its_way or self._sent == self._finished or time.monotonic() < self._not_before_s:
            return
        places = [KafkaPartition(place.topic, place.partition, offset) for place, offset in self._finished.items()]
        self._sent, self._on_its_way = self._finished, True
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as problem:
            self._failed(problem)

    def _on_commit(self, problem: KafkaError | None, places: list[KafkaPartition]) -> None:
        self._on_its_way = False
        for error in [problem, *(place.error for place in places)]:
            if error is not None:
                self._failed(error)
                return

    def _failed(self, problem: object) -> None:
        self._sent, self._on_its_way = {}, False
        self._not_before_s = time.monotonic() + RETRY_S
        log.warning("the progress of group %s was not committed, it will be sent again: %s", self._group, problem)
