"""Copiers and brokers are killed at random while records flow: the output must equal the input, exactly once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.testing import Embedded
from support.onlooker import create, eventually, partitions

PARTITIONS = 4
COPIERS = 2
RECORDS_PER_S = 100
COPIED_WITHIN_S = 180.0
PAUSE_S = (1.0, 4.0)
PROGRAMS = Path(__file__).parent


@dataclass(slots=True)
class Figures:
    records: int = 0
    copiers_killed: int = 0
    copiers_ended: int = 0
    brokers_killed: int = 0
    duplicates: int = 0
    lost: int = 0

    def __str__(self) -> str:
        return (
            f"{self.records} records, {self.copiers_killed} copiers and {self.brokers_killed} brokers killed, "
            f"{self.copiers_ended} copiers ended by errors, {self.duplicates} duplicates, {self.lost} lost"
        )


def in_python(client: str) -> Sequence[str]:
    return [sys.executable, str(PROGRAMS / f"with_{client}.py")]


class Copier:
    """A program that is started again when it ends."""

    def __init__(self, command: Sequence[str], bootstrap: str, transactional_id: str) -> None:
        self._command = [*command, bootstrap, transactional_id]
        self.ended = 0
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self._end()
        self._start()

    def look(self) -> None:
        if self._process.poll() is not None:
            self.ended += 1
            self._start()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()


class Source:
    """Writes numbers to `in` until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self._stopped = threading.Event()
        self.acknowledged: list[tuple[int, bytes]] = []
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._stopped.wait(1 / RECORDS_PER_S):
            self._producer.produce("in", b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
        assert self._producer.flush(120) == 0

    def _delivered(self, error: object, message) -> None:
        assert error is None, error
        self.acknowledged.append((message.partition(), message.value()))

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def run(command: Sequence[str], seconds: float, seed: int, tell: Callable[[str], None] = print) -> Figures:
    """Raises if the output differs from the input."""
    chance, figures = random.Random(seed), Figures()
    with Embedded(brokers=3) as cluster, ExitStack() as running:
        for topic in ("in", "out"):
            create(cluster, topic, PARTITIONS, {"min.insync.replicas": "2"})
        copiers = [
            running.enter_context(Copier(command, cluster.bootstrap_servers, f"copier-{number}"))
            for number in range(COPIERS)
        ]
        source = Source(cluster.bootstrap_servers)
        running.callback(source.stop)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(chance.uniform(*PAUSE_S))
            if chance.random() < 0.5:
                chance.choice(copiers).kill()
                figures.copiers_killed += 1
            else:
                _kill_a_broker(cluster, chance)
                figures.brokers_killed += 1
            for copier in copiers:
                copier.look()
        source.stop()
        copied = _read_until(cluster, copiers, source)
        figures.copiers_ended = sum(copier.ended for copier in copiers)
    wanted = Counter(source.acknowledged)
    figures.records = len(source.acknowledged)
    figures.duplicates = sum((copied - wanted).values())
    figures.lost = sum((wanted - copied).values())
    tell(str(figures))
    assert (figures.duplicates, figures.lost) == (0, 0), figures
    return figures


def _kill_a_broker(cluster: Embedded, chance: random.Random) -> None:
    node = cluster.nodes[chance.choice(list(cluster.nodes))]
    node.kill()
    time.sleep(chance.uniform(0.5, 2.0))
    node.start()
    eventually(
        lambda: all(
            seen.is_whole for topic in ("in", "out") for seen in (partitions(cluster, topic) or {0: _MISSING}).values()
        ),
        "the killed broker does not rejoin the ISR",
        120,
    )


class _Missing:
    is_whole = False


_MISSING = _Missing()


def _read_until(cluster: Embedded, copiers: Sequence[Copier], source: Source) -> Counter[tuple[int, bytes]]:
    """Reads `out` until it has as many records as `in`, and then until its end, so that duplicates are seen."""
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "judge",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    reader = Consumer(settings)
    reader.assign([TopicPartition("out", partition, 0) for partition in range(PARTITIONS)])
    copied: Counter[tuple[int, bytes]] = Counter()
    deadline, quiet_since = time.monotonic() + COPIED_WITHIN_S, time.monotonic()
    try:
        while time.monotonic() < deadline:
            for message in reader.consume(1000, 0.5):
                if message.error() is None:
                    copied[message.partition(), message.value()] += 1
                    quiet_since = time.monotonic()
            for copier in copiers:
                copier.look()
            if copied.total() >= len(source.acknowledged) and time.monotonic() - quiet_since > 3:
                break
    finally:
        reader.close()
    return copied
