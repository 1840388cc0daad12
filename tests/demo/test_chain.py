"""From the database through topics into a table and files: real connectors, whose tasks run in threads of the test."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
import sqlalchemy as sa

from odradek.client import Producer
from odradek.client.admin import Admin
from odradek.demo.trucking import topics
from odradek.demo.trucking.chain import Chain
from odradek.demo.trucking.checking import Results, uncaptured
from odradek.demo.trucking.connectors import Connectors
from odradek.demo.trucking.database import Database, DatabaseUnusable
from odradek.demo.trucking.drivers import roster
from odradek.demo.trucking.fleet import Fleet, Record
from odradek.demo.trucking.follower import Follower
from odradek.demo.trucking.truth import truth_of
from odradek.testing import Embedded
from support.connect_service import connect_service
from support.postgres import Postgres
from support.waiting import wait_until

START_MS = 1_767_225_600_000
TRUCKS = 5
# The connectors run in threads of this process, which must not be kept busy with looks at what they do.
CALMLY = {"within_s": 300.0, "every_s": 0.5}


def alert(driver: int) -> dict[str, object]:
    return {
        "driverId": driver,
        "window_start": "2026-01-01T00:00:00.000Z",
        "window_end": "2026-01-01T00:00:10.000Z",
        "violations": 7,
        "overspeeds": 5,
        "kinds": ["Lane Departure", "Overspeed"],
        "driverName": "Greta Sandoz",
        "certified": True,
        "wagePlan": "miles",
        "alert": "High speed",
    }


class Played:
    """The chain without trucks and without Spark: the test says what changes and which alerts there are."""

    def __init__(self, bootstrap: str, url: str, data: Path, database_url: str | None) -> None:
        self.bootstrap = bootstrap
        self.fleet = Fleet(seed=1, start_ms=START_MS, trucks=TRUCKS)
        self.chain = Chain(data, database_url, url)
        self.records: list[Record] = [r for r in self.fleet.step(START_MS) if r.topic == topics.DRIVERS]
        self.results = Results()
        self.follower = Follower(bootstrap, self._see)

    def _see(self, messages: list) -> None:
        self.chain.see(messages)
        for message in messages:
            self.results.see(message.topic(), message.value())

    def start(self) -> None:
        for name in topics.INPUTS + topics.OUTPUTS:
            Admin(self.bootstrap).create_topic(name, topics.PARTITIONS)
        self.chain.create(roster(TRUCKS, random.Random(1)))
        self.follower.start()
        self.chain.start()
        wait_until(lambda: self.follower.counts[topics.DRIVERS] == TRUCKS, self.chain.connectors.state, **CALMLY)

    def change(self, driver: int) -> None:
        self.fleet.change_driver(driver)
        self.chain.follow(self.fleet.drivers.rows[driver])
        for record in self.fleet.step(START_MS):
            self.records.append(record)
            self.chain.change(record)

    def tell(self, *alerts: dict[str, object]) -> None:
        with Producer(self.bootstrap) as producer:
            for row in alerts:
                producer.send(topics.ALERTS, json.dumps(row).encode())

    def why_not(self, alerts: list[dict[str, object]]) -> object:
        statuses = httpx.get(f"{self.chain.connectors.url}/connectors?expand=status", timeout=60).json()
        return self.chain.landed.problems(alerts), statuses

    def stop(self) -> None:
        self.chain.rest()
        self.follower.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request) -> Iterator[str | None]:
    if request.param == "sqlite":
        yield None
        return
    with Postgres.started() as server:
        yield f"postgresql://postgres@127.0.0.1:{server.port}/postgres"


@pytest.fixture
def played(database_url, tmp_path) -> Iterator[Played]:
    with Embedded() as broker:
        with connect_service(broker.bootstrap_servers) as service:
            played = Played(broker.bootstrap_servers, service.url, tmp_path, database_url)
            played.start()
            yield played
        played.stop()
    if database_url is not None:  # nothing of the demo is left in it
        with psycopg.connect(database_url) as connection:
            for rest in ("pg_replication_slots", "pg_publication", "pg_tables WHERE schemaname = 'public'"):
                assert connection.execute(f"SELECT * FROM {rest}").fetchall() == []


def test_changes_reach_the_topic_in_order_and_alerts_land_once_in_table_and_files(played):
    for _ in range(3):
        played.change(12)
    played.change(11)
    wait_until(lambda: played.follower.counts[topics.DRIVERS] == TRUCKS + 4, **CALMLY)
    assert list(uncaptured(truth_of(played.records), played.results)) == []
    assert played.chain.uncommitted == 0
    assert set(played.chain.trail.reached) == {"committed", topics.DRIVERS}

    alerts = [alert(10), alert(12), alert(10) | {"driverName": None, "certified": None, "wagePlan": None}]
    played.tell(*alerts)
    wait_until(lambda: played.chain.landed.problems(alerts) == [], lambda: played.why_not(alerts), **CALMLY)
    wait_until(lambda: played.chain.state().lake_rows == played.chain.state().table_rows == 3, **CALMLY)
    state = played.chain.state()
    assert (state.drivers, state.changes, state.lake_files > 0) == (TRUCKS, 4, True)
    wait_until(lambda: played.chain.connectors.state().state == "alive", played.chain.connectors.state, **CALMLY)

    missing, extra = played.chain.landed.problems([*alerts, alert(13)]), played.chain.landed.problems(alerts[1:])
    assert [text.partition(":")[0] for text in (*missing, *extra)] == ["the SQL table", "Parquet"] * 2
    assert "1 of 4 alerts are missing" in missing[0]
    assert "1 alerts that the topic does not have" in extra[1]


def test_a_database_that_has_the_tables_already_is_refused(tmp_path):
    database = Database.in_file(tmp_path / "mine.db")
    database.create(roster(2, random.Random(1)))
    with pytest.raises(DatabaseUnusable, match="Use an empty database"):
        Database.in_file(tmp_path / "mine.db").create(roster(2, random.Random(1)))
    with pytest.raises(DatabaseUnusable, match="oracle"):
        Database("oracle://here")


def test_a_refused_connector_is_reported_with_the_reason():
    with Embedded() as broker, connect_service(broker.bootstrap_servers) as service:
        connectors = Connectors(service.url, {"alerts-lake": {"connector.class": "lake", "topics": "x"}})
        assert connectors.state().state == "starting"
        connectors.start()
        wait_until(lambda: connectors.state().state == "stopped")
        assert '"path"' in connectors.state().detail
        connectors.stop()


def test_a_locked_database_delays_a_change_and_does_not_lose_it(tmp_path):
    chain = Chain(tmp_path, None, "http://127.0.0.1:1")
    chain.create(roster(TRUCKS, random.Random(1)))
    fleet = Fleet(seed=1, start_ms=START_MS, trucks=TRUCKS)
    fleet.step(START_MS)
    fleet.change_driver(12)
    with sqlite3.connect(tmp_path / "trucking.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        chain.start()
        for record in fleet.step(START_MS):
            chain.change(record)
        assert chain.uncommitted == 1
        other.execute("ROLLBACK")
    wait_until(lambda: chain.uncommitted == 0)
    with chain.database._engine.connect() as connection:
        plan = connection.execute(sa.text('SELECT "wagePlan" FROM driver WHERE id = 12')).scalar_one()
    assert plan == fleet.drivers.rows[12].wagePlan
    chain.rest()
