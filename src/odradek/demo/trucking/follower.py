"""Reads every topic of the demo for the page and the check; measures how far behind the application is."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import reduce

from confluent_kafka import Consumer, Message, TopicPartition

from odradek.client.admin import Admin, UnknownTopic
from odradek.client.first_records import FirstRecords
from odradek.client.records import ClientError
from odradek.demo.trucking import topics
from odradek.pipeline.behind import Behind, behind

MEASURE_EVERY_S = 1.0
REQUEST_TIMEOUT_S = 5.0


class Follower:
    def __init__(self, bootstrap: str, see: Callable[[list[Message]], None]) -> None:
        self._see = see
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "demo",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self.seen_at: dict[str, float] = {}  # topic -> when a record of it was last seen
        self.counts: Counter[str] = Counter()  # topic -> records

    def start(self) -> None:
        names = topics.INPUTS + topics.OUTPUTS
        self._consumer.assign([TopicPartition(name, n, 0) for name in names for n in range(topics.PARTITIONS)])
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            records = [message for message in self._consumer.consume(500, 0.1) if message.error() is None]
            if not records:
                continue
            self._see(records)
            for message in records:
                self.seen_at[message.topic()] = time.monotonic()
                self.counts[message.topic()] += 1


class BehindWatch:
    """How far the application is behind, topic by topic, by what its groups have committed."""

    def __init__(self, bootstrap: str, application: str) -> None:
        # When every broker was away librdkafka starts afresh, and would go on asking the coordinator it knew before.
        config = {"metadata.recovery.strategy": "none"}
        self._cluster = Admin(bootstrap, config, timeout_s=REQUEST_TIMEOUT_S)
        self._first = FirstRecords(bootstrap, config, timeout_s=REQUEST_TIMEOUT_S)
        self._prefix = f"{application}."
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="behind", daemon=True)
        self.behind: Behind | None = None  # None: it has not committed anything yet

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(MEASURE_EVERY_S):
            with suppress(ClientError, UnknownTopic):  # the broker is away; the page shows that
                self.behind = self._measured()
        self._first.close()

    def _measured(self) -> Behind | None:
        """The lag of the consumer group with the largest lag."""
        ends: dict[str, dict[int, int]] = {}
        found = (behind(self._cluster, self._first, group, ends) for group in self._cluster.groups(self._prefix))
        known = [one for one in found if one is not None]
        return reduce(Behind.or_further, known) if known else None
