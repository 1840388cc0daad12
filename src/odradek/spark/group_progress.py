"""Commits the finished offsets of a query to a consumer group, so that lag tools can show its progress.

The query itself resumes from its checkpoint and never reads these commits. So a commit never delays or fails a query,
and a failed commit is retried. At most one commit is in flight, because two could overtake each other.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, wait
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from odradek.spark.clients import Config
from odradek.spark.offsets import Offsets

log = logging.getLogger(__name__)

RETRY_S = 1.0
REQUEST_TIMEOUT_S = 10.0


class GroupProgress:
    """Uses the admin client, because a consumer cannot be closed while it waits for a lost coordinator."""

    def __init__(self, config: Config, group: str) -> None:
        self._group = group
        self._admin = AdminClient(config)
        self._finished: Offsets = {}
        # Committed, or in flight.
        self._sent: Offsets = {}
        self._on_its_way: Future[Any] | None = None
        self._not_before_s = 0.0

    def commit(self, finished: Offsets) -> None:
        """Send the offsets now, or with a later call if an earlier commit is still in flight."""
        self._finished = finished
        self._send(wait_s=0)

    def flush(self, timeout_s: float) -> None:
        """The last call: wait until all finished offsets are committed, or the timeout has passed."""
        deadline_s = time.monotonic() + timeout_s
        while (self._on_its_way or self._sent != self._finished) and time.monotonic() < deadline_s:
            self._send(wait_s=0.05)

    def _send(self, wait_s: float) -> None:
        if self._on_its_way is not None:
            wait([self._on_its_way], wait_s)
            self._look_at(self._on_its_way)
        elif wait_s:
            time.sleep(wait_s)
        if self._on_its_way or self._sent == self._finished or time.monotonic() < self._not_before_s:
            return
        places = [KafkaPartition(place.topic, place.partition, offset) for place, offset in self._finished.items()]
        self._sent = self._finished
        asked = self._admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self._group, places)], request_timeout=REQUEST_TIMEOUT_S
        )
        self._on_its_way = asked[self._group]

    def _look_at(self, answer: Future[Any]) -> None:
        if not answer.done():
            return
        self._on_its_way = None
        try:
            places = answer.result().topic_partitions
        except KafkaException as problem:
            self._failed(problem)
            return
        for place in places:
            if place.error is not None:
                self._failed(place.error)
                return

    def _failed(self, problem: object) -> None:
        self._sent = {}
        self._not_before_s = time.monotonic() + RETRY_S
        log.warning("could not commit the progress of group %s, will retry: %s", self._group, problem)
