"""Reads every topic of the demo from its beginning, for the page and the check; knows the application's lag."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable

from confluent_kafka import Consumer, Message, TopicPartition

from odradek.client.admin import Admin
from odradek.client.records import ClientError
from odradek.demo.trucking import topics

LAG_EVERY_S = 1.5
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
        self.positions: defaultdict[str, dict[int, int]] = defaultdict(dict)  # topic -> partition -> offset after
        self.seen_at: dict[str, float] = {}  # topic -> when a record of it was last seen

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
                self.positions[message.topic()][message.partition()] = message.offset() + 1
                self.seen_at[message.topic()] = time.monotonic()


class LagWatch:
    """How far the application is behind, topic by topic, by what its groups have committed."""

    def __init__(self, bootstrap: str, application: str, follower: Follower) -> None:
        # When every broker was away librdkafka starts afresh, and would go on asking the coordinator it knew before.
        self._cluster = Admin(bootstrap, {"metadata.recovery.strategy": "none"}, timeout_s=REQUEST_TIMEOUT_S)
        self._prefix = f"{application}."
        self._follower = follower
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag", daemon=True)
        self.lag: dict[str, int] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(LAG_EVERY_S):
            try:
                self.lag = self._measured()
            except ClientError:
                continue  # the broker is away; the page shows that

    def _measured(self) -> dict[str, int]:
        """Of several groups that read a topic, the one that is furthest behind."""
        lag: dict[str, int] = {}
        for group in self._cluster.groups(self._prefix):
            behind: defaultdict[str, int] = defaultdict(int)
            for (topic, partition), offset in self._cluster.committed(group).items():
                behind[topic] += max(0, self._follower.positions[topic].get(partition, 0) - offset)
            lag = {topic: max(lag.get(topic, 0), behind.get(topic, 0)) for topic in lag | behind}
        return lag
