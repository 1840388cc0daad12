"""Metrics: machines report, and any consumer can aggregate.

python examples/metrics.py              # against 127.0.0.1:9092; `odradek up` starts a broker there

Reports are small and frequent: they are batched for a tenth of a second and compressed. A lost report does no harm, so
the acknowledgement of the leader is enough (acks=1). Reports are kept for a day.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from dataclasses import dataclass

from odradek.client import AsyncAdmin, AsyncConsumer, AsyncProducer, json_of


@dataclass
class Report:
    host: str
    metric: str
    value: float


async def report(bootstrap: str, host: str, values: list[float]) -> None:
    async with AsyncProducer(
        bootstrap, key=str, value=json_of(Report), acks=1, linger_ms=100, compression_type="zstd"
    ) as producer:
        for value in values:
            await producer.send("metrics", Report(host, "cpu", value), key=host)


async def averages(bootstrap: str) -> dict[str, float]:
    seen: dict[str, list[float]] = defaultdict(list)
    async with AsyncConsumer("metrics", bootstrap=bootstrap, value=Report, stop_at_end=True) as consumer:
        async for record in consumer:
            seen[record.value.host].append(record.value.value)
    return {host: sum(values) / len(values) for host, values in sorted(seen.items())}


async def run(bootstrap: str) -> dict[str, float]:
    await AsyncAdmin(bootstrap).create_topic("metrics", partitions=2, config={"retention.ms": "86400000"})
    await asyncio.gather(*(report(bootstrap, f"host-{n}", [n + 0.5, n + 1.5]) for n in range(4)))
    return await averages(bootstrap)


if __name__ == "__main__":
    for host, average in asyncio.run(run(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")).items():
        print(f"{host}: cpu {average:.1f} % on average")
