"""Visitors of a website, as records: one producer, and group members that read what it writes."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

TOPIC = "page-views"
PARTITIONS = 4
PAGES = ("/", "/pricing", "/docs", "/docs/first-pipeline", "/blog", "/signup")
VISITORS = tuple(f"visitor-{number:02}" for number in range(40))
RECORDS_PER_S = 200
QUIET = {"log_level": 0}  # librdkafka would complain on the screen about a broker that stops with the demo


class Visits:
    """Writes page views, keyed by visitor, and remembers which were acknowledged."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._producer = Producer(QUIET | {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._rng = random.Random(seed)  # noqa: S311 not for secrets
        self._sequence: Counter[str] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="visits", daemon=True)
        # visitor -> how many of its views, numbered from 1, the broker has acknowledged
        self.acknowledged: Counter[str] = Counter()
        self.failures: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        started = time.monotonic()
        sent = 0
        while not self._stop.is_set():
            due = int((time.monotonic() - started) * RECORDS_PER_S)
            for _ in range(due - sent):
                self._send_one()
            sent = max(sent, due)
            self._producer.poll(0)
            self._stop.wait(0.02)
        self._producer.flush(10)

    def _send_one(self) -> None:
        visitor = self._rng.choice(VISITORS)
        self._sequence[visitor] += 1
        view = {"visitor": visitor, "view": self._sequence[visitor], "page": self._rng.choice(PAGES)}
        self._producer.produce(TOPIC, json.dumps(view).encode(), visitor.encode(), on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged[json.loads(message.value())["visitor"]] += 1


class Reader:
    """A member of a group: shares the topic's partitions with the other members and commits as it goes."""

    def __init__(self, bootstrap: str, group: str, name: str, seen: Callable[[str, int], None]) -> None:
        self.name = name
        self.partitions: list[int] = []
        self._seen = seen
        # The offset after the last record seen of each partition owned, and whether it is committed.
        self._next_offsets: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._consumer = Consumer(
            QUIET
            | {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        self._consumer.subscribe([TOPIC], on_assign=self._owns, on_revoke=self._loses, on_lost=self._loses)
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    view = json.loads(message.value())
                    self._seen(view["visitor"], view["view"])
                    self._next_offsets[message.partition()] = message.offset() + 1
            self._commit(self._next_offsets, wait=False)
        self._consumer.close()

    def _commit(self, offsets: dict[int, int], *, wait: bool) -> None:
        news = {index: offset for index, offset in offsets.items() if self._committed.get(index) != offset}
        if news:
            positions = [TopicPartition(TOPIC, index, offset) for index, offset in news.items()]
            self._consumer.commit(offsets=positions, asynchronous=not wait)
            self._committed |= news

    def _owns(self, _consumer: Consumer, gained: list[TopicPartition]) -> None:
        self.partitions = sorted({*self.partitions, *(tp.partition for tp in gained)})

    def _loses(self, _consumer: Consumer, lost: list[TopicPartition]) -> None:
        indexes = [tp.partition for tp in lost]
        self._commit(
            {index: self._next_offsets.pop(index) for index in indexes if index in self._next_offsets}, wait=True
        )
        self.partitions = [index for index in self.partitions if index not in indexes]


class GroupView:
    """What a whole group has read, from all its members."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.repeated = 0
        self.disordered: list[str] = []
        self._last: Counter[str] = Counter()
        self._lock = threading.Lock()

    def seen(self, visitor: str, view: int) -> None:
        with self._lock:
            last = self._last[visitor]
            if view == last + 1:
                self._last[visitor] = view
                self.count += 1
            elif view <= last:
                self.repeated += 1
            else:
                self.disordered.append(f"{visitor}: view {view} came after view {last}")

    def missing(self, acknowledged: Counter[str]) -> int:
        return sum(max(0, wanted - self._last[visitor]) for visitor, wanted in acknowledged.items())
