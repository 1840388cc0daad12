"""Measures one row on one server, and waits until the machine is idle enough for a valid number."""

from __future__ import annotations

import time
from typing import Any

import failover
import transactional
from batches import zstd_batch
from native import loadgen, touch_memory
from processes import machine_cpu_s
from rows import LOG_BYTES, RUN_BYTES, WARM_BYTES, Row
from servers import Limit, Server
from wire import Client, Refused, one_record_batch

Report = dict[str, float]
QUIET_CORES = 0.15
DISTURBED_CORES = 0.3
SAMPLE_S = 0.25
WARM_UP_ROUNDS = 2
COUNTED_WITHIN_S = 50.0
COUNTED_BATCHES = 200


class QuietMoments:
    """Waits until the machine is idle, up to a total limit."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s

    def wait(self) -> None:
        while self._patience_s > 0 and busy_cores(SAMPLE_S) > QUIET_CORES:
            self._patience_s -= SAMPLE_S

    def measured(self, run: RowRun) -> Report:
        """One run. A disturbed run is repeated, up to the total limit."""
        while True:
            self.wait()
            begin = time.monotonic()
            report = run.measure()
            if report.get("foreign_cores", 0) <= DISTURBED_CORES or self._patience_s <= 0:
                return report
            self._patience_s -= time.monotonic() - begin


def busy_cores(seconds: float) -> float:
    before = machine_cpu_s()
    time.sleep(seconds)
    return (machine_cpu_s() - before) / seconds


class RowRun:
    """A row on one server. A fetch row fills its log once; a produce row uses a new topic each time."""

    def __init__(self, row: Row, server: Server, seconds: float) -> None:
        self.row = row
        self._server = server
        self._seconds = seconds
        self._partitions = row.options.get("partitions", 1)
        self._turn = 0
        self._filled: str | None = None
        self._common: dict[str, Any] = {}

    def measure(self) -> Report:
        if self.row.mode == "failover":
            return {"gap_s": failover.gap_s(self._server, self.row.key)}
        if self.row.mode == "transactions":
            return self._transact()
        return self._fetch() if self.row.mode == "fetch" else self._write()

    def close(self) -> None:
        if self._filled:
            self._server.delete_topic(self._filled)

    def _created(self, topic: str) -> dict[str, Any]:
        """Creates a topic. Returns the options of the load generator for it."""
        row, server = self.row, self._server
        server.create_topic(topic, self._partitions, replicas=row.replicas, brokers=row.brokers)
        compressed = {"batch_file": zstd_batch(row.record_bytes, row.batch_bytes)} if row.zstd else {}
        return {
            "ports": listed(server.leader_ports(topic)),
            "pids": listed(server.pids),
            "topic": topic,
            "record_bytes": row.record_bytes,
            "batch_bytes": row.batch_bytes,
            **compressed,
            **row.options,
        }

    def _transact(self) -> Report:
        self._turn += 1
        topic = f"{self.row.key}-{self._turn}"
        self._server.create_topic(topic, self._partitions)
        # A commit takes milliseconds: with less time the percentiles would mean nothing.
        seconds = 5 * self._seconds
        report = transactional.measured(self._server, topic, self.row.options, self.row.record_bytes, seconds)
        self._server.delete_topic(topic)
        return report

    def _write(self) -> Report:
        self._turn += 1
        topic = f"{self.row.key}-{self._turn}"
        size = self.row.batch_size
        common = self._created(topic)
        if self.row.batch_bytes:
            touch_memory((RUN_BYTES + WARM_BYTES) / 1e9 + 0.2)
            warm, total = (size_all // size // self.row.replicas for size_all in (WARM_BYTES, RUN_BYTES))
            bounds = {"warm_requests": warm, "requests": total, "seconds": 2 * self._seconds}
        else:
            bounds = {"warm_seconds": self._seconds / 4, "seconds": self._seconds}
        report = loadgen(self.row.mode, **common, **bounds)
        self._check_log(topic, report)
        self._server.delete_topic(topic)
        return report

    def _check_log(self, topic: str, report: Report) -> None:
        """Checks that every acknowledged record is in the log; otherwise the number is not valid."""
        if isinstance(self._server, Limit):
            return
        stored = sum(self._server.end_offset(topic, partition) for partition in range(self._partitions))
        acknowledged = int(report["requests"] * report["batch_records"])
        if stored < acknowledged:
            raise RuntimeError(f"{self._server.name} acknowledged {acknowledged} records and has {stored}")

    def _fetch(self) -> Report:
        batches = min(20_000, LOG_BYTES // self.row.batch_size)
        if self._filled is None:
            self._filled = self.row.key
            self._common = self._created(self._filled)
            loadgen("produce", **self._common | {"window": 5}, requests=batches + 8, seconds=30)
            whole = self._common | {"body": "check", "batches": batches}
            loadgen("fetch", **whole, seconds=30, requests=batches)
        return loadgen(
            "fetch",
            **self._common,
            batches=batches,
            seconds=self._seconds,
            warm_seconds=self._seconds / 4,
        )


class CountedRun(RowRun):
    """A row with a fixed number of requests, for a count instead of a time."""

    def __init__(self, row: Row, server: Server) -> None:
        super().__init__(row, server, seconds=COUNTED_WITHIN_S)
        self._filled = f"{row.key}-counted"
        self._common = self._created(self._filled)
        if row.mode == "fetch":
            loadgen("produce", **self._common | {"window": 5}, requests=COUNTED_BATCHES + 8, seconds=COUNTED_WITHIN_S)

    def load(self, requests: int) -> None:
        more = {"batches": COUNTED_BATCHES} if self.row.mode == "fetch" else {}
        loadgen(self.row.mode, **self._common, **more, requests=requests, seconds=COUNTED_WITHIN_S)


def warm_up(server: Server, seconds: float) -> None:
    """Gives just-in-time compilers time before anything is measured. All nodes lead and follow."""
    nodes = len(server.node_ids)
    phases: list[dict[str, int]] = [
        {"batch_bytes": 0, "connections": 10 * nodes},
        {"batch_bytes": 16384, "record_bytes": 1024, "connections": nodes},
        {"batch_bytes": 1 << 20, "record_bytes": 100, "connections": nodes},
        {"batch_bytes": 1 << 20, "record_bytes": 1024, "connections": nodes},
    ]
    share = seconds / len(phases) / WARM_UP_ROUNDS
    for number, options in enumerate(phases * WARM_UP_ROUNDS):
        topic = f"warm-up-{number}"
        server.create_topic(topic, nodes, replicas=nodes)
        common = {"ports": listed(server.leader_ports(topic)), "topic": topic, **options}
        limit = RUN_BYTES // nodes // max(options["batch_bytes"], 1)
        acks = -1 if nodes > 1 else 1
        done = loadgen("produce", **common, seconds=share * 0.6, requests=limit, partitions=nodes, acks=acks)
        batches = server.end_offset(topic) // int(done["batch_records"])
        loadgen("fetch", **common, seconds=share * 0.4, batches=max(1, batches), window=3)
        server.delete_topic(topic)


def listed(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def start_to_first_acknowledged_s(server: Server, within_s: float = 60.0) -> float:
    """The time from the start of the process to the first acknowledged record. The data directory is new."""
    batch = one_record_batch(b"first")
    server.prepare()
    begin = time.monotonic()
    server.start()
    while True:
        try:
            with Client(server.port) as client:
                client.create_topic("first")
                client.produce("first", [(0, batch)])
                return time.monotonic() - begin
        except (OSError, Refused):
            if time.monotonic() - begin > within_s:
                raise
            time.sleep(0.002)
