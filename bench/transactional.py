"""Transactional produce: records and commits per second of librdkafka, which speaks the older protocol of transactions.

The producer writes to all partitions in turn as fast as it can, and commits every so many records or milliseconds.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Mapping

from confluent_kafka import Producer
from processes import machine_cpu_s, processes
from servers import Server

WARM_S = 1.0
PATIENCE_S = 60.0
_numbers = itertools.count()


def measured(
    server: Server, topic: str, options: Mapping[str, int], record_bytes: int, seconds: float
) -> dict[str, float]:
    """`options`: partitions, and `commit_ms` or `commit_records`."""
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "transactional.id": f"bench-{next(_numbers)}",
            "queue.buffering.max.messages": 100_000,
            "linger.ms": 5,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    load = _Load(producer, topic, options, b"x" * record_bytes)
    load.run(WARM_S)
    load.records, load.commits_s = 0, []
    server_cpu, own_cpu, machine_cpu, began = _cpu_s(server), time.process_time(), machine_cpu_s(), time.monotonic()
    load.run(seconds)
    took = time.monotonic() - began
    server_cpu_s, own_cpu_s = _cpu_s(server) - server_cpu, time.process_time() - own_cpu
    stored = sum(server.end_offset(topic, partition) for partition in range(options["partitions"]))
    if stored < load.records:
        raise RuntimeError(f"{server.name} committed {load.records} records and has {stored}")
    return {
        "records_per_s": load.records / took,
        "requests": float(len(load.commits_s)),
        "bytes": float(load.records * record_bytes),
        "server_cpu_s": server_cpu_s,
        "commit_p50_us": 1e6 * statistics.median(load.commits_s),
        "commit_p99_us": 1e6 * sorted(load.commits_s)[len(load.commits_s) * 99 // 100],
        "foreign_cores": max(0.0, (machine_cpu_s() - machine_cpu - server_cpu_s - own_cpu_s) / took),
    }


def _cpu_s(server: Server) -> float:
    pids = set(server.pids)
    return sum(each.cpu_s for each in processes() if each.pid in pids)


class _Load:
    def __init__(self, producer: Producer, topic: str, options: Mapping[str, int], value: bytes) -> None:
        self.records = 0
        # How long each commit took, with the records that it had to wait for.
        self.commits_s: list[float] = []
        self._producer = producer
        self._topic = topic
        self._partitions = itertools.cycle(range(options["partitions"]))
        # One record for each partition belongs to every transaction.
        self._least = options["partitions"]
        self._most = options.get("commit_records", 1 << 60)
        self._open_s = options.get("commit_ms", 1 << 40) / 1000
        self._value = value

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._transact()

    def _transact(self) -> None:
        self._producer.begin_transaction()
        began, count = time.monotonic(), 0
        while count < self._least or (count < self._most and time.monotonic() - began < self._open_s):
            try:
                self._producer.produce(self._topic, self._value, partition=next(self._partitions))
                count += 1
            except BufferError:
                self._producer.poll(0.001)
            if count % 100 == 0:
                self._producer.poll(0)
        commit = time.monotonic()
        self._producer.commit_transaction(PATIENCE_S)
        self.commits_s.append(time.monotonic() - commit)
        self.records += count
