"""Copiers and brokers are killed at random while records flow: the output must equal the input, exactly once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.testing import Embedded
from support.copying.judgement import Copied, Judgement, judge
from support.onlooker import create, eventually, partitions

PARTITIONS = 4
COPIERS = 2
RECORDS_PER_S = 100
COPIED_WITHIN_S = 180.0
WHOLE_WITHIN_S = 120.0
QUIET_S = 3.0
DOWN_S = (0.5, 2.0)
GROUP = "copiers"
PROGRAMS = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds between two kills, from and to."""

    copiers: tuple[float, float] = (1.0, 5.0)
    brokers: tuple[float, float] = (1.0, 6.0)


@dataclass(slots=True)
class Figures:
    copiers_killed: int = 0
    copiers_ended: int = 0
    brokers_killed: int = 0
    judgement: Judgement = field(default_factory=lambda: judge({}, []))

    def __str__(self) -> str:
        return (
            f"{self.copiers_killed} copiers and {self.brokers_killed} brokers killed, "
            f"{self.copiers_ended} copiers ended by errors: {self.judgement}"
        )


def in_python(client: str, *arguments: str) -> Sequence[str]:
    return [sys.executable, str(PROGRAMS / f"with_{client}.py"), *arguments]


class Copier:
    """A program that is started again when it ends."""

    def __init__(self, command: Sequence[str], bootstrap: str, number: int, output: IO[bytes] | None) -> None:
        """The program gets the servers, its transactional id, and the partitions it copies if it has no group."""
        own = ",".join(str(partition) for partition in range(number, PARTITIONS, COPIERS))
        self._command = [*command, bootstrap, f"copier-{number}", own]
        self._output = output or subprocess.DEVNULL
        self.ended = 0
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=self._output, stderr=self._output)

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
        self.acknowledged: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
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
        self.acknowledged[message.partition()].append(message.value())

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


class BrokerKiller:
    """Kills one broker after another, each when the replicas are in sync again."""

    def __init__(self, cluster: Embedded, chance: random.Random, pause_s: tuple[float, float]) -> None:
        self._cluster = cluster
        self._chance = chance
        self._pause_s = pause_s
        self._down = 0
        self.killed = 0
        self._pause(pause_s)

    def _pause(self, between: tuple[float, float]) -> None:
        self._next = time.monotonic() + self._chance.uniform(*between)

    def look(self) -> None:
        if time.monotonic() < self._next:
            return
        if self._down:
            self._cluster.nodes[self._down].start()
            self._down = 0
            self._pause(self._pause_s)
        elif _is_whole(self._cluster):
            self._down = self._chance.choice(list(self._cluster.nodes))
            self._cluster.nodes[self._down].kill()
            self.killed += 1
            self._pause(DOWN_S)

    def finish(self) -> None:
        if self._down:
            self._cluster.nodes[self._down].start()
        eventually(lambda: _is_whole(self._cluster), "a killed broker does not rejoin the ISR", WHOLE_WITHIN_S)


def run(
    command: Sequence[str],
    seconds: float,
    seed: int,
    *,
    pace: Pace | None = None,
    log: Path | None = None,
) -> Figures:
    """`log`: a folder for the output of brokers and copiers."""
    chance, figures, pace = random.Random(seed), Figures(), pace or Pace()
    with ExitStack() as running:
        cluster = running.enter_context(Embedded(brokers=3, log=log and log / "brokers.log"))
        output = log and running.enter_context((log / "copiers.log").open("wb"))
        for topic in ("in", "out"):
            create(cluster, topic, PARTITIONS, {"min.insync.replicas": "2"})
        copiers = [
            running.enter_context(Copier(command, cluster.bootstrap_servers, number, output))
            for number in range(COPIERS)
        ]
        source = Source(cluster.bootstrap_servers)
        running.callback(source.stop)
        brokers = BrokerKiller(cluster, chance, pace.brokers)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            until = min(deadline, time.monotonic() + chance.uniform(*pace.copiers))
            while time.monotonic() < until:
                brokers.look()
                for copier in copiers:
                    copier.look()
                time.sleep(0.1)
            chance.choice(copiers).kill()
            figures.copiers_killed += 1
        brokers.finish()
        source.stop()
        copied = _read(cluster, copiers, sum(map(len, source.acknowledged.values())))
        figures.brokers_killed = brokers.killed
        figures.copiers_ended = sum(copier.ended for copier in copiers)
    figures.judgement = judge(source.acknowledged, copied)
    return figures


def _is_whole(cluster: Embedded) -> bool:
    seen = [partitions(cluster, topic) for topic in ("in", "out")]
    return all(seen) and all(partition.is_whole for topic in seen for partition in topic.values())


def _read(cluster: Embedded, copiers: Sequence[Copier], wanted: int) -> list[Copied]:
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
    copied: list[Copied] = []
    deadline, quiet_since = time.monotonic() + COPIED_WITHIN_S, time.monotonic()
    try:
        while time.monotonic() < deadline and (len(copied) < wanted or time.monotonic() - quiet_since < QUIET_S):
            for message in reader.consume(1000, 0.5):
                if message.error() is None:
                    copied.append(_copied(message))
                    quiet_since = time.monotonic()
            for copier in copiers:
                copier.look()
    finally:
        reader.close()
    return copied


def _copied(message) -> Copied:
    headers = dict(message.headers())
    return Copied(message.partition(), message.value(), headers["transaction"].decode(), int(headers["size"]))


def require_exact(figures: Figures, tell: Callable[[str], None] = print) -> None:
    tell(str(figures))
    assert figures.judgement.is_exact, figures.judgement
