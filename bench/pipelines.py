"""Spark reads and writes topics with `odradek` and with Spark's own Kafka connector, by turns in one session.

    .venv/bin/python bench/pipelines.py           about four minutes; `make bench` runs it after the rows of the broker
    QUICK=1 …                                     fewer records and turns
    DOCS=1 …                                      also rewrites its part of docs/performance.md

Both use the same `odradek up`. *First* is the first query of a new session, without the start of the JVM. *Warm* is the
median of all turns except the first two. Reads go to Spark's `noop` sink, so that only the source is measured. Writes
come from `spark.range`. The floor is the duration of a micro-batch of one record.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conditions import conditions
from kafka_jars import spark_connector
from native import OUT
from report import table, write_part
from servers import Odradek

CONNECTORS = ("odradek", "kafka")
PARTITIONS = 4
SIZES = {"100 B": 100, "1 KB": 1000}
BEGIN, END = "<!-- pipelines: begin -->", "<!-- pipelines: end -->"


def quick() -> bool:
    return os.environ.get("QUICK", "") not in ("", "0")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=2 if quick() else 5)
    parser.add_argument(
        "--records",
        type=int,
        default=100_000 if quick() else 1_000_000,
        help="number of records of 100 B; a third of it for 1 KB",
    )
    parser.add_argument("--docs", action="store_true", default=os.environ.get("DOCS", "") not in ("", "0"))
    parser.add_argument("--inside", metavar="JSON", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print("RESULT " + json.dumps(Session(**json.loads(options.inside)).measured()))
        return 0
    text = markdown(measured(options.turns, options.records))
    print(text)
    if options.docs:
        write_part(BEGIN, END, text)
    return 0


def measured(turns: int, records: int) -> dict[str, Any]:
    OUT.mkdir(exist_ok=True)
    counts = {label: records * 100 // max(100, size // 3) for label, size in SIZES.items()}
    with tempfile.TemporaryDirectory(dir=OUT) as place:
        broker = Odradek(Path(place) / "data")
        broker.start()
        broker.await_ready()
        try:
            bootstrap = f"127.0.0.1:{broker.port}"
            for label, count in counts.items():
                fill(broker, bootstrap, topic_of(label), SIZES[label], count)
            first = {
                connector: session(bootstrap=bootstrap, counts=counts, connectors=[connector], turns=0, first=True)
                for connector in CONNECTORS
            }
            warm = session(bootstrap=bootstrap, counts=counts, connectors=list(CONNECTORS), turns=turns, first=False)
        finally:
            broker.stop()
    results = {"conditions": conditions(), "counts": counts, "first": first, "warm": warm}
    (OUT / "pipelines.json").write_text(json.dumps(results, indent=1) + "\n")
    return results


def topic_of(label: str) -> str:
    return "bench-" + label.replace(" ", "").lower()


def fill(broker: Odradek, bootstrap: str, topic: str, size: int, count: int) -> None:
    from confluent_kafka import Producer

    print(f"writing {count:,} records of {size} B", flush=True)
    broker.create_topic(topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.num.messages": 10_000})
    padding = "x" * size
    for index in range(count):
        value = (f'{{"id": {index}, "text": "' + padding)[:size]
        while True:
            try:
                producer.produce(topic, key=f"key-{index % 1000:06}", value=value, partition=index % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60):
        raise SystemExit("the broker did not accept the records")


def session(**what: Any) -> dict[str, Any]:
    """A Spark session in a separate process, so that one measurement does not warm up the JVM of the next."""
    command = [sys.executable, __file__, "--inside", json.dumps(what)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=1800)
    [line] = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return found


class Session:
    """The measurements in one JVM, and their session and broker."""

    def __init__(
        self, *, bootstrap: str, counts: dict[str, int], connectors: list[str], turns: int, first: bool
    ) -> None:
        from odradek.spark.session import local_session

        jars = ",".join(map(str, spark_connector()))
        self.spark = local_session("bench", master="local[2]", conf={"spark.jars": jars})
        self.kafka = {"kafka.bootstrap.servers": bootstrap}
        self.bootstrap = bootstrap
        self.counts = counts
        self.connectors = connectors
        self.turns = turns
        self.first = first

    def measured(self) -> dict[str, Any]:
        if self.first:
            [connector] = self.connectors
            return {"batch, 100 B": self.read_batch(connector, "100 B")}
        found: dict[str, Any] = {}
        for label in SIZES:
            found[f"batch, {label}"] = self.by_turns(self.read_batch, label)
            found[f"stream, {label}"] = self.by_turns(self.read_stream, label)
            found[f"sink, {label}"] = self.by_turns(self.write, label)
        found["floor"] = {connector: self.floor_ms(connector) for connector in self.connectors}
        return found

    def by_turns(self, measure: Callable[[str, str], float], label: str) -> dict[str, float]:
        """Rows per second of each connector: the median after two warm-up rounds."""
        rates: dict[str, list[float]] = {connector: [] for connector in self.connectors}
        for turn in range(2 + self.turns):
            order = self.connectors if turn % 2 else self.connectors[::-1]
            for connector in order:
                rate = measure(connector, label)
                print(f"  {measure.__name__} {label} {connector}: {rate:,.0f} rows/s", file=sys.stderr, flush=True)
                if turn >= 2:
                    rates[connector].append(rate)
        return {connector: statistics.median(of) for connector, of in rates.items()}

    def read_batch(self, connector: str, label: str) -> float:
        begin = time.perf_counter()
        frame = self.spark.read.format(connector).options(**self.kafka, subscribe=topic_of(label)).load()
        frame.write.format("noop").mode("overwrite").save()
        return self.counts[label] / (time.perf_counter() - begin)

    def read_stream(self, connector: str, label: str) -> float:
        frame = (
            self.spark.readStream.format(connector)
            .options(**self.kafka, subscribe=topic_of(label), startingOffsets="earliest")
            .load()
        )
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            rows = sum(progress["numInputRows"] for progress in query.recentProgress)
            took_ms = sum(progress["durationMs"].get("addBatch", 0) for progress in query.recentProgress)
        if rows != self.counts[label]:
            raise SystemExit(f"{connector} read {rows:,} of {self.counts[label]:,} rows")
        return 1000 * rows / took_ms

    def write(self, connector: str, label: str) -> float:
        from pyspark.sql import functions as F

        rows = self.counts[label]
        key = F.concat(F.lit("key-"), F.col("id") % 1000)
        frame = self.spark.range(0, rows, 1, 2).select(
            key.alias("key"), F.rpad(F.col("id").cast("string"), SIZES[label], "x").alias("value")
        )
        with self.topic() as topic:
            begin = time.perf_counter()
            frame.write.format(connector).mode("append").options(**self.kafka, topic=topic).save()
            return rows / (time.perf_counter() - begin)

    @contextmanager
    def topic(self) -> Iterator[str]:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        name = f"bench-{uuid.uuid4().hex}"
        admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(30)
        try:
            yield name
        finally:
            admin.delete_topics([name])[name].result(30)

    def floor_ms(self, connector: str, batches: int = 60) -> float:
        """Duration of a micro-batch of one record, from the request for the latest offset to the commit."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        with self.topic() as topic, tempfile.TemporaryDirectory() as checkpoint:
            frame = self.spark.readStream.format(connector).options(
                **self.kafka, subscribe=topic, startingOffsets="earliest"
            )
            query = (
                frame.load()
                .writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .queryName(topic)
                .start()
            )
            durations: list[float] = []
            seen = -1
            while len(durations) < batches:
                producer.produce(topic, value=b"x")
                producer.flush()
                while (
                    (progress := query.lastProgress) is None
                    or progress["batchId"] <= seen
                    or not progress["numInputRows"]
                ):
                    time.sleep(0.002)
                seen = progress["batchId"]
                durations.append(progress["durationMs"]["triggerExecution"])
            query.stop()
        return statistics.median(durations[10:])


def markdown(results: dict[str, Any]) -> str:
    told, warm, first = results["conditions"], results["warm"], results["first"]
    lines = [
        row("read, batch, 100 B, first query of a session", {name: first[name]["batch, 100 B"] for name in CONNECTORS})
    ]
    for label in SIZES:
        lines.append(row(f"read, batch, {label}, warm", warm[f"batch, {label}"]))
        lines.append(row(f"read, stream, {label}, warm", warm[f"stream, {label}"]))
        lines.append(row(f"write, {label}, warm", warm[f"sink, {label}"]))
    floor = warm["floor"]
    lines.append(
        [
            "micro-batch of one record",
            f"{floor['odradek']:.0f} ms",
            f"{floor['kafka']:.0f} ms",
            f"{floor['kafka'] / floor['odradek']:.2f}",
        ]
    )
    counts = ", ".join(f"{count:,} records of {label}" for label, count in results["counts"].items())
    return (
        f"`python bench/pipelines.py`, {told['date']}, commit {told['commit']}; {told['machine']}; {counts} "
        f"in {PARTITIONS} partitions; local[2].\n\n"
        + table(["row", "`odradek`", "Spark's `kafka`", "ratio (above 1: ours is ahead)"], lines)
        + "\n"
    )


def row(title: str, rates: dict[str, float]) -> list[str]:
    ours, theirs = rates["odradek"], rates["kafka"]
    return [title, f"{ours:,.0f} rows/s", f"{theirs:,.0f} rows/s", f"{ours / theirs:.2f}"]


if __name__ == "__main__":
    sys.exit(main())
