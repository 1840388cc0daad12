"""kill -9 of the connect service, the broker and PostgreSQL while rows change: each change is in the topic once.

`make capture` is the long form: 10,000 changes a second for two minutes, and ten kills of a service on Spark.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import psycopg
import pytest

from support.account_load import TABLES, Load, Replica
from support.broker_process import BrokerProcess
from support.killed_services import KilledServices, killed_services
from support.postgres import Postgres
from support.waiting import wait_until

pytestmark = pytest.mark.crash

SECONDS = float(os.environ.get("CAPTURE_S", "5"))
KILLS = int(os.environ.get("CAPTURE_KILLS", "1"))
RATE = float(os.environ.get("CAPTURE_RATE", "1000"))
ON_SPARK = os.environ.get("CAPTURE_ON_SPARK") == "1"
SEED = int(os.environ.get("SEED", str(time.time_ns() % 1_000_000)))
TOPIC = "shop.public.accounts"


def create(services: KilledServices, server: Postgres, database: str) -> None:
    config = {
        "connector.class": "postgres-cdc",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "postgres",
        "database.dbname": database,
        "topic.prefix": "shop",
        "table.include.list": "public.accounts",
        "slot.name": "capture",
        "exactly.once.support": "required",
        "restart.attempts.max": "1000",
        "restart.backoff.max.ms": "1000",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "1",
    }
    answer = services.active().http.post("/connectors", json={"name": "capture", "config": config})
    assert answer.status_code == 201, answer.text


def schedule(
    services: KilledServices, broker: BrokerProcess, server: Postgres
) -> list[tuple[float, str, Callable[[], None]]]:
    """Kills at random moments, one in each part of the time."""

    def restart_broker() -> None:
        broker.kill()
        broker.start()

    def restart_server() -> None:
        server.kill()
        server.start()

    chance = random.Random(SEED)
    kills = [("service", services.kill_active)] * KILLS + [("broker", restart_broker), ("PostgreSQL", restart_server)]
    chance.shuffle(kills)
    part = SECONDS / len(kills)
    return [(part * (at + chance.random()), *kill) for at, kill in enumerate(kills)]


@pytest.mark.timeout(300 + 6 * SECONDS)
def test_every_change_is_in_the_topic_once_and_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print(f"SEED={SEED}")
    with (
        Postgres.started() as server,
        BrokerProcess(tmp_path / "data") as broker,
        killed_services(broker.bootstrap, count=2 if ON_SPARK else 1, on_spark=ON_SPARK) as services,
    ):
        database = server.new_database()
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(TABLES)
        create(services, server, database.rpartition("/")[2])
        wait_until(lambda: has_slot(database), services.logs)
        load, began_s = Load(database, RATE, SEED), time.monotonic()
        for at_s, what, kill in schedule(services, broker, server):
            wait_until(lambda due_s=began_s + at_s: time.monotonic() >= due_s, within_s=SECONDS + 60)
            print(f"{time.monotonic() - began_s:.1f} s: kill -9 of {what}")
            kill()
        wait_until(lambda: time.monotonic() >= began_s + SECONDS, within_s=SECONDS + 60)
        expected, load_s = load.finish(), time.monotonic() - began_s
        replica = Replica(broker.bootstrap, TOPIC)
        replica.follow(sum(map(len, expected.values())))
        caught_up_s = time.monotonic() - began_s
        assert list(islice(replica.differences(expected), 5)) == [], f"SEED={SEED}\n{services.logs()}"
        assert replica.rows_that_differ(database) == 0
    with capsys.disabled():
        print(
            f"\n{load.changes:,} changes in {load_s:.0f} s; {services.kills} kills of the service, one of the broker, "
            f"one of PostgreSQL; all {replica.read:,} records read after {caught_up_s:.0f} s, each once and in order"
        )


def has_slot(database: str) -> bool:
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = 'capture'").fetchone()
    return found is not None
