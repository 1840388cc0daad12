"""Measures whether stored data makes new work slower: the same appends and fetches with 50 KB and with 20 GB stored.

Two brokers by turns: one has three batches in its log, the other has 20 GB in a log and 5,000 more partitions. Fetches
in the large one read 32 MB of an old segment in order; seeks go to a thousand places in the whole log. A raw loop of
pwrite and pread of the same size runs beside each, to measure the disk and the page cache at that time. Then the large
broker stops cleanly and starts again.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from measure import listed
from native import loadgen
from servers import Odradek
from wire import Client, one_record_batch

BATCH = {"record_bytes": 1024, "batch_bytes": 16 * 1024}
LITTLE = 3  # batches
READ_ON, PLACES = 2000, 1000
FILL_REQUESTS = 200_000
REQUESTS, WARM_REQUESTS = 8000, 1000
TURNS = 5
RESTARTS = 3
TOPIC = "log"
PER_REQUEST = 100


class Broker:
    """A broker with one log of `batches` equal batches."""

    def __init__(self, place: Path, batches: int) -> None:
        self.server = Odradek(place)
        self.server.start()
        self.server.await_ready()
        self.server.create_topic(TOPIC)
        self.batches = batches
        for done in range(0, batches, FILL_REQUESTS):
            filled = self._load("produce", requests=min(FILL_REQUESTS, batches - done), seconds=55)
        self.batch_bytes, self.batch_records = int(filled["batch_bytes"]), int(filled["batch_records"])

    def append(self) -> dict[str, float]:
        return self._load("produce", requests=REQUESTS, warm_requests=WARM_REQUESTS, seconds=30)

    def fetch(self) -> dict[str, float]:
        return self._fetch(min(READ_ON, self.batches), 1)

    def seek(self) -> dict[str, float]:
        places = min(PLACES, self.batches)
        return self._fetch(places, self.batches // places)

    def _fetch(self, places: int, stride: int) -> dict[str, float]:
        """The warm-up requests load the data into the page cache."""
        bounds = {"requests": REQUESTS, "warm_requests": max(WARM_REQUESTS, places), "seconds": 30}
        return self._load("fetch", batches=places * stride, stride=stride, window=3, **bounds)

    def _load(self, mode: str, **more: int) -> dict[str, float]:
        return loadgen(mode, ports=self.server.port, pids=listed(self.server.pids), topic=TOPIC, **BATCH, **more)

    def forget(self) -> None:
        """Drop the log from the page cache, so that new pages need not evict its pages. Most data is only on disk."""
        for segment in (self.server.directory / f"{TOPIC}-0").glob("*.log"):
            with segment.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def raw_append_us(self) -> float:
        payload = os.urandom(self.batch_bytes)
        path = self.server.directory / "raw"
        with path.open("wb") as file:
            begin = time.perf_counter()
            for number in range(REQUESTS):
                os.pwrite(file.fileno(), payload, number * len(payload))
            taken_s = time.perf_counter() - begin
        path.unlink()
        return 1e6 * taken_s / REQUESTS

    def raw_fetch_us(self) -> float:
        """Reads at the same places of the same files."""
        segments = sorted((self.server.directory / f"{TOPIC}-0").glob("*.log"))
        files = [os.open(segment, os.O_RDONLY) for segment in segments]
        sizes = [max(segment.stat().st_size - self.batch_bytes, 0) for segment in segments]
        places = [
            (files[number % len(files)], sizes[number % len(files)] * number // PLACES) for number in range(PLACES)
        ]
        for file, position in places:
            os.pread(file, self.batch_bytes, position)
        begin = time.perf_counter()
        for number in range(REQUESTS):
            file, position = places[number % PLACES]
            os.pread(file, self.batch_bytes, position)
        taken_s = time.perf_counter() - begin
        for file in files:
            os.close(file)
        return 1e6 * taken_s / REQUESTS


def stored(place: Path, gigabytes: float, partitions: int) -> dict[str, float]:
    brokers = {"little": Broker(place / "little", LITTLE)}
    try:
        brokers["much"] = Broker(place / "much", int(gigabytes * 1e9) // BATCH["batch_bytes"])
        much = brokers["much"].server
        much.create_topic("many", partitions)
        write_each(much, partitions)
        os.sync()
        brokers["much"].forget()
        found = {"gigabytes": gigabytes, "partitions": partitions}
        for act in ("append", "fetch", "seek"):
            found |= by_turns(act, brokers)
        return found | restarts(much)
    finally:
        for broker in brokers.values():
            broker.server.stop()


def by_turns(act: str, brokers: dict[str, Broker]) -> dict[str, float]:
    cpu: dict[str, list[float]] = {name: [] for name in brokers}
    wall: dict[str, list[float]] = {name: [] for name in brokers}
    for turn in range(TURNS):
        for name in list(brokers)[:: 1 if turn % 2 == 0 else -1]:
            broker = brokers[name]
            raw_us = broker.raw_append_us() if act == "append" else broker.raw_fetch_us()
            done = getattr(broker, act)()
            cpu[name].append(1e6 * done["server_cpu_s"] / done["requests"])
            wall[name].append(1e6 * done["seconds"] / done["requests"] / raw_us)
    little, much = (statistics.median(cpu[name]) for name in ("little", "much"))
    return {
        f"{act}_cpu_us_beside_50_kb": little,
        f"{act}_cpu_us_beside_all": much,
        f"{act}_cpu_more_percent": 100 * (much / little - 1),
        f"{act}_wall_to_raw_beside_50_kb": statistics.median(wall["little"]),
        f"{act}_wall_to_raw_beside_all": statistics.median(wall["much"]),
    }


def restarts(server: Odradek) -> dict[str, float]:
    """Times of a clean stop, and of a start until the broker returns the end of the log."""
    taken: dict[str, list[float]] = {"stop_s": [], "restart_s": []}
    for _ in range(RESTARTS):
        end = server.end_offset(TOPIC)
        begin = time.monotonic()
        server.stop()
        stopped = time.monotonic()
        server.start()
        server.await_in_sync(TOPIC, 1)
        taken["restart_s"].append(time.monotonic() - stopped)
        taken["stop_s"].append(stopped - begin)
        if server.end_offset(TOPIC) != end:
            raise RuntimeError("the log has another end offset after a restart")
    return {name: statistics.median(times) for name, times in taken.items()}


def write_each(server: Odradek, partitions: int) -> None:
    batch = one_record_batch(b"x" * 100)
    with Client(server.port) as client:
        for first in range(0, partitions, PER_REQUEST):
            client.produce("many", [(index, batch) for index in range(first, min(partitions, first + PER_REQUEST))])
