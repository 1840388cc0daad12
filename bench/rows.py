"""The rows of the benchmark, and the prototype's figures for comparison in the first table.

The prototype was a throw-away broker, only with produce and fetch. Its measurements decided the design of the data
plane. Its figures are from a similar machine (2 vCPU, loopback); `limit_then` is the C limit on that machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

KB, MB = 1024, 1024 * 1024
RUN_BYTES = 700_000_000  # a growing file, below one segment
WARM_BYTES = 64_000_000
LOG_BYTES = 200_000_000  # what a fetch row reads repeatedly

Unit = Literal["MB/s", "records/s", "requests/s", "ms", "s"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prototype:
    throughput: float | None = None
    cpu_us_per_request: float | None = None
    cpu_s_per_gb: float | None = None
    limit_then: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    key: str
    title: str
    mode: Literal["produce", "fetch", "pace", "e2e", "failover", "transactions"]
    unit: Unit
    nodes: int = 1
    replicas: int = 1
    brokers: tuple[int, ...] = ()  # given: where the topic is; otherwise it is spread over all of them
    record_bytes: int = 100
    batch_bytes: int = 0  # 0: one record; before compression
    zstd: bool = False
    options: Mapping[str, int] = field(default_factory=dict)
    prototype: Prototype | None = None  # given: the row is in the first table, beside the limit
    kafka: bool = True

    @property
    def batch_size(self) -> int:
        """Roughly: a lone record has a header of 61 bytes and a few of its own."""
        return self.batch_bytes or self.record_bytes + 70


def produce(key: str, title: str, **more: object) -> Row:
    return Row(key=key, title=title, mode="produce", **more)  # type: ignore[arg-type]


def replicated(key: str, title: str, **more: object) -> Row:
    """Three nodes with one leader each, replication factor 3, and a connection to each leader."""
    options = {"acks": -1, "partitions": 3, "connections": 3}
    return Row(key=key, title=title, mode="produce", nodes=3, replicas=3, options=options, **more)  # type: ignore[arg-type]


def failover(key: str, title: str) -> Row:
    return Row(key=key, title=title, mode="failover", unit="s", nodes=3, replicas=3)


def fetch(key: str, title: str, **more: object) -> Row:
    return Row(key=key, title=title, mode="fetch", options={"window": 3}, **more)  # type: ignore[arg-type]


# Latency comes first: the write-back and deletions after large runs would disturb it.
ROWS = [
    Row(key="latency-1k", title="acknowledgement, 1,000 records/s", mode="pace", unit="ms", options={"rate": 1000}),
    Row(key="latency-10k", title="acknowledgement, 10,000 records/s", mode="pace", unit="ms", options={"rate": 10_000}),
    Row(key="e2e-1k", title="producer to consumer, 1,000 records/s", mode="e2e", unit="ms", options={"rate": 1000}),
    Row(key="e2e-10k", title="producer to consumer, 10,000 records/s", mode="e2e", unit="ms", options={"rate": 10_000}),
    produce(
        "produce-1k-1mb",
        "produce 1 KB records, 1 MB batches, acks=1",
        unit="MB/s",
        record_bytes=KB,
        batch_bytes=MB,
        prototype=Prototype(throughput=2858, cpu_s_per_gb=0.349, limit_then=3092),
    ),
    produce(
        "produce-1k-1mb-all",
        "produce 1 KB records, 1 MB batches, acks=all",
        unit="MB/s",
        record_bytes=KB,
        batch_bytes=MB,
        options={"acks": -1},
    ),
    produce("produce-100-1mb", "produce 100 B records, 1 MB batches, acks=1", unit="MB/s", batch_bytes=MB),
    produce(
        "produce-100-1mb-all",
        "produce 100 B records, 1 MB batches, acks=all",
        unit="MB/s",
        batch_bytes=MB,
        options={"acks": -1},
    ),
    produce(
        "produce-1k-64kb",
        "produce 1 KB records, 64 KB batches, acks=1",
        unit="MB/s",
        record_bytes=KB,
        batch_bytes=64 * KB,
        prototype=Prototype(throughput=1545, cpu_s_per_gb=0.644, limit_then=1999),
    ),
    produce(
        "produce-1k-16kb",
        "produce 1 KB records, 16 KB batches, acks=1",
        unit="MB/s",
        record_bytes=KB,
        batch_bytes=16 * KB,
        prototype=Prototype(throughput=746, cpu_s_per_gb=1.331, limit_then=1073),
    ),
    *(
        produce(
            f"produce-{size}-zstd{suffix}",
            f"produce {name} records, zstd, 1 MB batches, acks={acks}",
            unit="records/s",
            record_bytes=record_bytes,
            batch_bytes=MB,
            zstd=True,
            options=options,
        )
        for size, name, record_bytes in (("1k", "1 KB", KB), ("100", "100 B", 100))
        for suffix, acks, options in (("", "1", {}), ("-all", "all", {"acks": -1}))
    ),
    produce(
        "small-1",
        "one 100 B record per request, 1 connection, 5 in flight",
        unit="requests/s",
        prototype=Prototype(throughput=81_200, cpu_us_per_request=10.8, limit_then=138_600),
    ),
    produce(
        "small-1-sync",
        "one 100 B record per request, 1 connection, 1 in flight",
        unit="requests/s",
        options={"window": 1, "spin_us": 0},
    ),
    produce(
        "small-1-all", "one 100 B record per request, 1 connection, acks=all", unit="requests/s", options={"acks": -1}
    ),
    produce(
        "small-50",
        "one 100 B record per request, 50 connections",
        unit="requests/s",
        options={"connections": 50, "partitions": 10, "window": 1, "spin_us": 0},
    ),
    fetch(
        "fetch-1k-1mb",
        "consume 1 KB records, 1 MB batches",
        unit="MB/s",
        record_bytes=KB,
        batch_bytes=MB,
        prototype=Prototype(throughput=7210, cpu_s_per_gb=0.138, limit_then=6634),
    ),
    fetch("fetch-100-1mb", "consume 100 B records, 1 MB batches", unit="MB/s", batch_bytes=MB),
    fetch(
        "fetch-1k-64kb",
        "consume 1 KB records, 64 KB batches",
        unit="requests/s",
        record_bytes=KB,
        batch_bytes=64 * KB,
        prototype=Prototype(cpu_us_per_request=33.0),
        kafka=False,
    ),
    fetch(
        "fetch-1k-16kb",
        "consume 1 KB records, 16 KB batches",
        unit="requests/s",
        record_bytes=KB,
        batch_bytes=16 * KB,
        prototype=Prototype(cpu_us_per_request=20.1),
    ),
    fetch(
        "fetch-100-one",
        "consume one 100 B record per fetch",
        unit="requests/s",
        prototype=Prototype(cpu_us_per_request=20.1),
        kafka=False,
    ),
    fetch(
        "fetch-1k-zstd",
        "consume 1 KB records, zstd, 1 MB batches",
        unit="records/s",
        record_bytes=KB,
        batch_bytes=MB,
        zstd=True,
    ),
    produce(
        "small-50-of-two",
        "one 100 B record per request, 50 connections, to one of two brokers",
        unit="requests/s",
        nodes=2,
        brokers=(1,),
        options={"connections": 50, "partitions": 10, "window": 1, "spin_us": 0},
    ),
    produce(
        "small-50-both",
        "one 100 B record per request, 50 connections, to both of two brokers",
        unit="requests/s",
        nodes=2,
        options={"connections": 50, "partitions": 10, "window": 1, "spin_us": 0},
    ),
    *(
        Row(
            key=f"rf3-latency-{key}",
            title=f"acknowledgement, three copies, acks=all, {rate:,} records/s",
            mode="pace",
            unit="ms",
            nodes=3,
            replicas=3,
            options={"rate": rate, "acks": -1},
        )
        for key, rate in (("200", 200), ("1k", 1000))
    ),
    replicated("rf3-small", "one 100 B record per request, three copies, acks=all", unit="requests/s"),
    replicated(
        "rf3-100-1mb", "produce 100 B records, 1 MB batches, three copies, acks=all", unit="MB/s", batch_bytes=MB
    ),
    replicated(
        "rf3-1k-1mb",
        "produce 1 KB records, 1 MB batches, three copies, acks=all",
        unit="MB/s",
        record_bytes=KB,
        batch_bytes=MB,
    ),
    replicated(
        "rf3-1k-16kb",
        "produce 1 KB records, 16 KB batches, three copies, acks=all",
        unit="MB/s",
        record_bytes=KB,
        batch_bytes=16 * KB,
    ),
    *(
        Row(
            key=f"transactions-{partitions}-{key}",
            title=f"transactions over {places}, 100 B records, commit every {told}",
            mode="transactions",
            unit="records/s",
            options={"partitions": partitions, **options},
        )
        for key, told, options in (
            ("100ms", "100 ms", {"commit_ms": 100}),
            ("1k", "1,000 records", {"commit_records": 1000}),
        )
        for partitions, places in ((1, "1 partition"), (10, "10 partitions"), (100, "100 partitions"))
    ),
    failover("failover-kill", "no acknowledgements after kill -9 of a leader"),
    failover("failover-controller", "no acknowledgements after kill -9 of a leader that is the active controller"),
    failover("failover-stop", "no acknowledgements at a leader's clean stop"),
]
