"""postgres-cdc beside Debezium: `python bench/capture.py odradek|debezium|debezium-10ms`. Prints one row of JSON.

First a backlog of changes is drained: records per second. Then rows change at a steady rate: the latency from a
commit in PostgreSQL to the arrival of its record at a read_committed consumer. The broker is Odradek's for all.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import psycopg
from confluent_kafka import Consumer, TopicPartition

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import kafka_jars
from connect_load import cpu_seconds, service

from support.broker_process import BrokerProcess
from support.kafka_connect import KAFKAS_JVM, kafka_connect
from support.postgres import Postgres
from support.waiting import wait_until

TOPIC = "shop.public.accounts"
ROWS = 100  # of a transaction of the backlog
STEADY_ROWS = 10
COMMON = {
    "database.hostname": "127.0.0.1",
    "database.user": "postgres",
    "topic.prefix": "shop",
    "plugin.name": "pgoutput",
    "snapshot.mode": "no_data",
    "table.include.list": "public.accounts",
    "slot.name": "bench",
}
JSON_ALONE = {
    f"{which}.converter{option}": value
    for which in ("key", "value")
    for option, value in {"": "org.apache.kafka.connect.json.JsonConverter", ".schemas.enable": "false"}.items()
}
SYSTEMS = {
    "odradek": {"connector.class": "postgres-cdc"},
    "odradek-json": {"connector.class": "postgres-cdc"} | JSON_ALONE,
    "debezium": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"} | JSON_ALONE,
}
SYSTEMS["debezium-10ms"] = SYSTEMS["debezium"] | {"poll.interval.ms": "10"}
TABLE = """
CREATE TABLE accounts (id bigint PRIMARY KEY, owner text NOT NULL, balance numeric(12,2) NOT NULL,
    version bigint NOT NULL, changed timestamptz NOT NULL, note text)
"""
INSERT = """
INSERT INTO accounts SELECT n, 'owner ' || n, n * 1.25, 1, now(), 'a note of some length ' || n
FROM generate_series(%s::bigint, %s::bigint) AS n
"""
UPDATE = (
    "UPDATE accounts SET balance = balance + 1.5, version = version + 1, changed = now() WHERE id BETWEEN %s AND %s"
)


class Source(msgspec.Struct):
    ts_us: int


class Event(msgspec.Struct):
    source: Source


class Arrivals:
    """Reads the topic on a thread of its own. `seen`: when each batch arrived, with the raw values."""

    def __init__(self, bootstrap: str) -> None:
        config = {"bootstrap.servers": bootstrap, "group.id": "bench", "isolation.level": "read_committed"}
        self._consumer = Consumer({**config, "enable.auto.commit": False, "fetch.queue.backoff.ms": 5})
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        self.seen: list[tuple[float, list[bytes]]] = []
        self.count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            messages = self._consumer.consume(2_000, 0.001)
            at = time.time()
            values = [value for each in messages if each.error() is None and (value := each.value()) is not None]
            if values:
                self.seen.append((at, values))
                self.count += len(values)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def latencies_ms(self, first: int) -> list[float]:
        decode = msgspec.json.Decoder(Event).decode
        each = ((at, value) for at, values in self.seen for value in values)
        arrived = list(each)[first:]
        return [at * 1e3 - decode(value).source.ts_us / 1e3 for at, value in arrived]


@contextmanager
def running(system: str, bootstrap: str) -> Iterator[tuple[httpx.Client, int]]:
    """The REST API of a service of its own, and its process."""
    if system.startswith("odradek"):
        with service(bootstrap) as (pid, url), httpx.Client(base_url=url, timeout=60) as http:
            yield http, pid
        return
    with kafka_connect(bootstrap, plugins=[kafka_jars.debezium_postgres()], jvm=KAFKAS_JVM) as http:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        yield http, next(int(each) for each in children if "ConnectDistributed" in command_of(each))


def command_of(pid: str) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def measured(system: str, changes: int, rate: int, seconds: float) -> dict[str, object]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Postgres.started() as server,
        BrokerProcess(Path(folder) / "data", num_partitions="1") as broker,
        running(system, broker.bootstrap) as (http, pid),
        psycopg.connect(server.new_database(), autocommit=True) as database,
    ):
        database.execute(TABLE)
        database.execute(INSERT, [1, 1])
        database.execute("CREATE PUBLICATION dbz_publication FOR TABLE accounts")
        config = COMMON | SYSTEMS[system]
        config |= {"database.port": str(server.port), "database.dbname": database.info.dbname}
        http.put("/connectors/bench/config", json=config).raise_for_status()
        wait_until(lambda: is_streaming(database), within_s=120)
        # One change creates the topic and warms up. The connector stops: its slot keeps the backlog.
        database.execute(UPDATE, [1, 1])
        arrivals = Arrivals(broker.bootstrap)
        wait_until(lambda: arrivals.count >= 1, lambda: http.get("/connectors/bench/status").text, within_s=120)
        http.put("/connectors/bench/stop").raise_for_status()
        wait_until(lambda: not is_streaming(database), within_s=60)
        fill(database, changes)
        cpu = cpu_seconds(pid)
        http.put("/connectors/bench/resume").raise_for_status()
        wait_until(lambda: arrivals.count > changes, within_s=600, every_s=0.1)
        row: dict[str, object] = {"system": system, "changes": changes} | throughput(arrivals, changes)
        row["cpu_us_per_change"] = round((cpu_seconds(pid) - cpu) / changes * 1e6, 1)
        first = arrivals.count
        steady(database, rate, seconds)
        wait_until(lambda: arrivals.count >= first + int(rate * seconds), within_s=60)
        arrivals.close()
        found = sorted(arrivals.latencies_ms(first))
        assert arrivals.count == first + int(rate * seconds), "a change is there twice"
        http.delete("/connectors/bench")
    cuts = statistics.quantiles(found, n=100)
    return row | {"rate": rate, "p50_ms": round(cuts[49], 1), "p99_ms": round(cuts[98], 1)}


def is_streaming(database: psycopg.Connection) -> bool:
    return database.execute("SELECT 1 FROM pg_replication_slots WHERE active").fetchone() is not None


def fill(database: psycopg.Connection, changes: int) -> None:
    """Half of them insert rows, half change them."""
    for first in range(2, changes // 2 + 2, ROWS):
        database.execute(INSERT, [first, first + ROWS - 1])
        database.execute(UPDATE, [first, first + ROWS - 1])


def throughput(arrivals: Arrivals, changes: int) -> dict[str, object]:
    """Between the arrivals of the tenth and the last part of the backlog: without the start of the task."""
    counted, began = 0, 0.0
    first = 0
    for at, values in arrivals.seen:
        counted += len(values)
        if not began and counted > changes // 10:
            began, first = at, counted
    seconds = arrivals.seen[-1][0] - began
    return {"per_second": round((counted - first) / seconds)}


def steady(database: psycopg.Connection, rate: int, seconds: float) -> None:
    due = time.monotonic()
    for number in range(int(rate * seconds) // STEADY_ROWS):
        time.sleep(max(due - time.monotonic(), 0))
        due += STEADY_ROWS / rate
        first = 2 + number * STEADY_ROWS
        database.execute(UPDATE, [first, first + STEADY_ROWS - 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=sorted(SYSTEMS))
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    print(json.dumps(measured(given.system, given.changes, given.rate, given.seconds)))


if __name__ == "__main__":
    main()
