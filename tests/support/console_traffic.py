"""Topics, producers and consumer groups in different states, for tests and screenshots of the console."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

ROUND_S = 0.2
RECORDS_PER_ROUND = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    group: str
    topics: Sequence[str]
    pause_s: float = 0.0  # after each round
    rounds: int | None = None  # of a few records, until it leaves


class Traffic:
    """Writes `rates` records per round to each topic, and runs `readers`, for as long as a `with` block lasts."""

    def __init__(
        self, bootstrap: str, rates: dict[str, int], readers: Sequence[Reader], *, partitions: int = 3, copies: int = 3
    ) -> None:
        self._bootstrap = bootstrap
        self._rates = rates
        self._readers = readers
        self._partitions = partitions
        self._copies = copies
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        wanted = [NewTopic(name, self._partitions, self._copies) for name in self._rates]
        for done in admin.create_topics(wanted).values():
            done.result()
        self._begin(self._write)
        for reader in self._readers:
            self._begin(self._read, reader)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _begin(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _write(self) -> None:
        chance = random.Random(1)
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 20, "log_level": 0})
        number = 0
        while not self._over.wait(ROUND_S):
            for topic, rate in self._rates.items():
                for _ in range(chance.randint(rate // 2, rate + rate // 2)):
                    number += 1
                    value = json.dumps({"id": number, "amount": round(chance.random() * 100, 2), "note": "x" * 200})
                    producer.produce(topic, key=f"customer-{number % 500}", value=value)
            producer.poll(0)
        producer.flush(5)

    def _read(self, reader: Reader) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": reader.group,
                "client.id": f"{reader.group}-1",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "log_level": 0,
            }
        )
        consumer.subscribe(list(reader.topics))
        rounds = 0
        while not self._over.is_set() and (reader.rounds is None or rounds < reader.rounds):
            consumer.consume(RECORDS_PER_ROUND, 0.5)
            rounds += 1
            if reader.pause_s:
                self._over.wait(reader.pause_s)
        consumer.close()
