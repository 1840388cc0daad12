"""One run: a broker, one system, the trucks at one rate; and its results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import numpy as np
import trucking_load
from confluent_kafka import Consumer, Producer, TopicPartition
from native import OUT
from processes import CpuWatch, Process, shared_fairly_bytes
from servers import Odradek
from stream_systems import Running, System
from trucking_latency import Latency, Seen, figures, latencies
from trucking_load import ISO_BEGIN, ISO_CHARS, TICK_MS, Load
from visible import Visibility
from wire import Client

from odradek.client.admin import Admin
from odradek.demo.trucking import topics
from odradek.demo.trucking.fleet import Record, iso

WARM_EVENTS_PER_S, WARM_LOAD_S = 200, 600
LIVE_WITHIN_S = 240.0
DRAIN_WITHIN_S, DRAINED_AFTER_S = 20.0, 4.0
DRIVERS_AGE_MS = 60_000
KEEPS_UP = 0.1  # by how many seconds the results may fall behind per second
# The topics whose results show the progress of a system.
FRONTIER = (topics.DANGEROUS, topics.STATISTICS, topics.ENRICHED)
LATENCIES = (*FRONTIER, topics.ALERTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The report of the generator."""

    warm_start_ms: int
    warm_ticks: int
    start_ms: int
    end_ms: int
    late_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    started_ms: int  # of the system
    sent: Sent
    results: list[Seen]
    watch: CpuWatch
    pss_bytes: int  # of the system at the end
    drivers: list[Record]  # as they were sent


def run(system: System, events_per_s: int, seconds: int, warm_s: float) -> Run:
    """`warm_s`: the time between the first results and the measurement, for just-in-time compilers."""
    warm = trucking_load.load_of(WARM_EVENTS_PER_S, WARM_LOAD_S, warm=True)
    main = trucking_load.load_of(events_per_s, seconds, warm=False)
    table = trucking_load.drivers_of(max(events_per_s, WARM_EVENTS_PER_S))
    with tempfile.TemporaryDirectory(dir=OUT) as place:
        broker = Odradek(Path(place) / "broker")
        broker.start()
        try:
            broker.await_ready()
            create_topics(broker.bootstrap)
            drivers = send_drivers(broker.bootstrap, table)
            return _played(system, broker, (warm, main), drivers, Path(place) / "system", warm_s)
        finally:
            broker.stop()


def _played(
    system: System, broker: Odradek, loads: tuple[Path, Path], drivers: list[Record], folder: Path, warm_s: float
) -> Run:
    command = [sys.executable, trucking_load.__file__, str(broker.port), *map(str, loads)]
    generator = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    running = None
    try:
        told: dict[str, Any] = _line(generator)  # it has read its input files
        running = Running(system, broker.bootstrap, folder)
        started_ms = int(time.time() * 1000)
        watch = CpuWatch(lambda process: kind_of(process, running, broker, generator))
        watch.start()
        await_live(running, broker)
        time.sleep(warm_s)
        assert generator.stdin is not None
        generator.stdin.write("go\n")
        generator.stdin.flush()
        told |= _line(generator) | _line(generator)
        running.check()
        pss_bytes = shared_fairly_bytes(running.sessions)
        watch.stop()
        drain(broker)
        running.check()
    finally:
        generator.kill()
        generator.wait()
        if running is not None:
            running.stop()
    return Run(
        started_ms=started_ms,
        sent=Sent(**told),
        results=read_outputs(broker.bootstrap, broker.directory),
        watch=watch,
        pss_bytes=pss_bytes,
        drivers=drivers,
    )


def _line(generator: subprocess.Popen[str]) -> dict[str, Any]:
    assert generator.stdout is not None
    line = generator.stdout.readline()
    if not line:
        raise RuntimeError("the generator ended; it says why above")
    said: dict[str, Any] = json.loads(line)
    return said


def kind_of(process: Process, running: Running, broker: Odradek, generator: subprocess.Popen[str]) -> str | None:
    if process.session in running.sessions:
        return "system"
    if process.pid in broker.pids:
        return "broker"
    if process.pid == generator.pid:
        return "generator"
    return "bench" if process.pid == os.getpid() else None


def create_topics(bootstrap: str) -> None:
    cluster = Admin(bootstrap)
    for name in topics.INPUTS + topics.OUTPUTS:
        config = {"cleanup.policy": "compact"} if name in topics.COMPACTED else {}
        if name in topics.OUTPUTS:
            # All that was written is read at the end, with the moment at which the broker appended it.
            config = {"message.timestamp.type": "LogAppendTime"}
        cluster.create_topic(name, topics.PARTITIONS, config)


def send_drivers(bootstrap: str, table: list[Record]) -> list[Record]:
    """Rows that are older than the first window: a join by time finds them there too."""
    then_ms = int(time.time() * 1000) - DRIVERS_AGE_MS
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 50})
    sent = [replaced(record, time_ms=then_ms) for record in table]
    for record in sent:
        producer.produce(record.topic, record.value, record.key, timestamp=then_ms)
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("the broker did not accept the drivers")
    return sent


def await_live(running: Running, broker: Odradek) -> None:
    deadline = time.monotonic() + LIVE_WITHIN_S
    with Client(broker.port) as client:
        while not all(written(client, topic) for topic in topics.STEADY):
            running.check()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{running.name} has not written all topics:\n{running.last_words()}")
            time.sleep(0.1)


def written(client: Client, topic: str) -> int:
    return sum(client.end_offset(topic, partition) for partition in range(topics.PARTITIONS))


def drain(broker: Odradek) -> None:
    """Until nothing new comes, or for so long."""
    deadline = time.monotonic() + DRAIN_WITHIN_S
    with Client(broker.port) as client:
        known, since = -1, time.monotonic()
        while time.monotonic() < min(deadline, since + DRAINED_AFTER_S):
            now = sum(written(client, topic) for topic in topics.OUTPUTS)
            if now != known:
                known, since = now, time.monotonic()
            time.sleep(0.2)


def read_outputs(bootstrap: str, data: Path) -> list[Seen]:
    cluster, visible = Admin(bootstrap), Visibility(data)
    left = {(name, n): end for name in topics.OUTPUTS for n, end in cluster.end_offsets(name).items() if end}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.partition.eof": True})
    consumer.assign([TopicPartition(name, n, 0) for name, n in left])
    found: list[Seen] = []
    while left:
        for message in consumer.consume(10_000, 5.0):
            where = (message.topic(), message.partition())
            if message.error() is None:
                visible_ms = visible.ms(message.topic(), message.partition(), message.offset())
                found.append(Seen(message.topic(), message.value(), visible_ms))
            else:  # the end of the partition
                left.pop(where, None)
    consumer.close()
    return found


# --- what was sent


def positions_sent(run: Run, warm: Load, main: Load) -> list[tuple[int, int]]:
    """Driver and time of day of every position that can be parsed, in the order of a driver's records."""
    last = warm.ticks[run.sent.warm_ticks - 1][0] if run.sent.warm_ticks else 0
    warmed = [(driver, run.sent.warm_start_ms + ms) for driver, ms in warm.positions if ms < last]
    return warmed + [(driver, run.sent.start_ms + ms) for driver, ms in main.positions]


def records_sent(run: Run, events_per_s: int, seconds: int) -> list[Record]:
    """Made once more, with the times that they were sent with."""
    warm = trucking_load.records_of(WARM_EVENTS_PER_S, WARM_LOAD_S, warm=True)
    main = trucking_load.records_of(events_per_s, seconds, warm=False)
    ticks = sorted({due // TICK_MS for due, _ in trucking_load.with_due(warm)})[: run.sent.warm_ticks]
    last = ticks[-1] if ticks else -1
    sent = [
        _moved(record, run.sent.warm_start_ms) for due, record in trucking_load.with_due(warm) if due // TICK_MS <= last
    ]
    return sent + [_moved(record, run.sent.start_ms) for _, record in trucking_load.with_due(main)]


def _moved(record: Record, by_ms: int) -> Record:
    value, time_ms = record.value, record.time_ms + by_ms
    if len(value) >= ISO_BEGIN + ISO_CHARS:
        value = value[:ISO_BEGIN] + iso(time_ms).encode() + value[ISO_BEGIN + ISO_CHARS :]
    return replaced(record, value=value, time_ms=time_ms)


# --- what came of it


def measured(run: Run, events_per_s: int, seconds: int) -> dict[str, float]:
    warm = trucking_load.read(trucking_load.load_of(WARM_EVENTS_PER_S, WARM_LOAD_S, warm=True))
    main = trucking_load.read(trucking_load.load_of(events_per_s, seconds, warm=False))
    found = latencies(positions_sent(run, warm, main), run.results)
    sent = run.sent
    settled_ms = sent.start_ms + (sent.end_ms - sent.start_ms) // 3
    behind = [behind_s(found, topic, settled_ms, sent.end_ms) for topic in FRONTIER]
    slope = max(map(growth, behind))
    rate = main.events / seconds
    report: dict[str, float] = {
        "events_per_s": rate,
        "keeps_up": slope < KEEPS_UP,
        "falls_behind": slope,
        "behind_s": max((of_topic[-1][1] for of_topic in behind if of_topic), default=float("inf")),
        "processed_per_s": rate * min(1.0, max(0.0, 1 - slope)),
        "late_s": sent.late_s,
        "start_s": start_s(run),
        "rss_mb": run.watch.rss_max_bytes("system") / 1e6,
        "pss_mb": run.pss_bytes / 1e6,
    }
    for kind, cores in run.watch.cores(settled_ms / 1000, sent.end_ms / 1000).items():
        report[f"{kind}_cores"] = cores
    report["events_per_core_s"] = report["processed_per_s"] / report["system_cores"]
    for topic in LATENCIES:
        told = figures(one.seconds for one in found if one.row == topic and settled_ms <= one.event_ms <= sent.end_ms)
        report |= {f"{topic} {name}_s": told[name] for name in ("p50", "p99") if name in told}
    return report


def start_s(run: Run) -> float:
    """From the start of the system until every steady topic has a record."""
    first: dict[str, int] = {}
    for result in run.results:
        first[result.topic] = min(first.get(result.topic, result.appended_ms), result.appended_ms)
    return (max(first[topic] for topic in topics.STEADY) - run.started_ms) / 1000


def behind_s(found: Sequence[Latency], topic: str, since_ms: int, until_ms: int) -> list[tuple[float, float]]:
    """How old the newest event with a result is, at the end of each second in which such results came.

    In the seconds between two micro-batches nothing comes, and the age grows without meaning anything.
    """
    rows = sorted((one.event_ms + one.seconds * 1000, one.event_ms) for one in found if one.row == topic)
    points, newest, place = [], 0, 0
    for moment in range(since_ms, until_ms + 1, 1000):
        before = newest
        while place < len(rows) and rows[place][0] <= moment:
            newest = max(newest, rows[place][1])
            place += 1
        if newest > before and moment > since_ms:
            points.append((moment / 1000, (moment - newest) / 1000))
    return points


def growth(points: list[tuple[float, float]]) -> float:
    """Seconds that the results fall behind in each second: 1 when none come."""
    if len(points) < 2:
        return 1.0
    times, ages = zip(*points, strict=True)
    return float(np.polyfit(np.array(times) - times[0], ages, 1)[0])
