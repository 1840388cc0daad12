"""The same PostgreSQL and the same changes, captured by ours and by Debezium: the events are equal, field by field."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from interop.debezium_rows import CHANGES, SCHEMA, SETTLED
from odradek.client.admin import Admin
from odradek.testing import Embedded
from support.connect_service import Service, connect_service
from support.kafka_connect import kafka_connect
from support.kafka_tools import kafka_jars
from support.postgres import Postgres
from support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

CONVERTERS = {f"{which}.converter": "org.apache.kafka.connect.json.JsonConverter" for which in ("key", "value")}
CONVERTERS |= {f"{which}.converter.schemas.enable": "true" for which in ("key", "value")}
MODES: dict[str, dict[str, str]] = {
    "plain": {"provide.transaction.metadata": "true", "skipped.operations": "none"},
    "texts": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "connect",
        "binary.handling.mode": "hex",
        "include.unknown.datatypes": "true",
        "table.exclude.list": "public.infinite",
    },
    "others": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "adaptive_time_microseconds",
        "binary.handling.mode": "base64",
        "tombstones.on.delete": "false",
        "column.exclude.list": "public.items.price",
        "publish.via.partition.root": "true",
        "publication.name": "with_root",
        "interval.handling.mode": "string",
        "hstore.handling.mode": "map",
        "heartbeat.interval.ms": "100",
    },
}
# What differs for a reason. docs/connect/postgres.md lists these.
VERSION = {"version"}
CLOCK = {"ts_ms", "ts_us", "ts_ns"}
PLACE = {"lsn", "txId", "sequence", "ts_ms", "ts_us", "ts_ns"}  # of a snapshot's rows
# Headers with the name of the connector, on every event.
CONTEXT = "__debezium.context."
LAST = "last"
HEARTBEATS = "__debezium-heartbeat."
# What differs in single fields: docs/connect/postgres.md says why.
KNOWN = [
    r"\w+\.public\.kinds\[1\]\.value\.payload\.after\.c43:",  # the snapshot of a date before Christ
    r"\w+\.public\.kinds\[\d\]\.value\.payload\.after\.c16: .*Debezium's None",  # name
    r"texts\.public\.kinds\[[01]\]\.value\.payload\.after\.c54:",  # the snapshot of money
    r".*\.public\.Odd_Name\[0\].*Gr",  # names that are not ASCII
    r".*fields\[c65\]\.items\.optional",  # an array of an enum
    r"\w+\.transaction\[\d+\]\.value\.payload\.(data_collections|event_count).*(Message|message)",
]
# Rows of partitioned tables, which Debezium's snapshot reads a second time.
TWICE = {"plain.public.logs", "texts.public.logs", "others.public.logs_1"}

Events = dict[str, list[Any]]


@pytest.fixture(scope="module")
def captured() -> Iterator[dict[str, tuple[Events, Events]]]:
    """By mode: the events of Debezium, and ours, by topic."""
    with (
        Postgres.started() as server,
        Embedded() as theirs,
        Embedded() as ours,
        kafka_connect(theirs.bootstrap_servers, plugins=[kafka_jars.debezium_postgres()]) as debezium,
        connect_service(ours.bootstrap_servers, linger_s=60.0) as service,
        psycopg.connect(server.new_database(), autocommit=True) as database,
    ):
        for statement in SCHEMA:
            database.execute(statement)
        for mode in MODES:
            create(debezium, mode, "io.debezium.connector.postgresql.PostgresConnector", server, database, "theirs")
            create(service.http, mode, "postgres-cdc", server, database, "ours")
        wait_until(lambda: active_slots(database) == 2 * len(MODES), lambda: told(debezium, service), within_s=120)
        for transaction in CHANGES:
            with database.transaction():
                for statement in transaction:
                    database.execute(statement)
            if transaction == SETTLED:
                # Both look at today's catalog for what the log does not say, such as NOT NULL.
                for mode in MODES:
                    for side in (theirs, ours):
                        all_events(side.bootstrap_servers, mode, "settled")
        yield {
            mode: (all_events(theirs.bootstrap_servers, mode), all_events(ours.bootstrap_servers, mode))
            for mode in MODES
        }


def create(
    http: httpx.Client, mode: str, connector: str, server: Postgres, database: psycopg.Connection, side: str
) -> None:
    config = {
        "connector.class": connector,
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "postgres",
        "database.dbname": database.info.dbname,
        "topic.prefix": mode,
        "plugin.name": "pgoutput",
        "slot.name": f"{side}_{mode}",
        **CONVERTERS,
        **MODES[mode],
    }
    if side == "theirs":
        config["database.password"] = "unused"
    answer = http.put(f"/connectors/{mode}/config", json=config)
    assert answer.status_code == 201, answer.text


def told(debezium: httpx.Client, service: Service) -> str:
    return "\n".join(http.get(f"/connectors/{mode}/status").text for http in (debezium, service.http) for mode in MODES)


def active_slots(database: psycopg.Connection) -> int:
    found = database.execute("SELECT count(*) FROM pg_replication_slots WHERE active").fetchone()
    assert found is not None
    return int(found[0])


def all_events(bootstrap: str, mode: str, last: str = LAST) -> Events:
    """Until a row of `items` has come, and then to the ends of all topics."""
    found: Events = defaultdict(list)
    config = {"bootstrap.servers": bootstrap, "group.id": "read", "isolation.level": "read_committed"}
    consumer = Consumer({**config, "enable.auto.commit": False})
    known: set[str] = set()
    reached: dict[tuple[str, int], int] = {}

    def read() -> None:
        counts = Admin(bootstrap).partition_counts()
        new = [name for name in counts if f"{mode}." in f"{name}." and name not in known]
        known.update(new)
        consumer.incremental_assign([TopicPartition(name, each, 0) for name in new for each in range(counts[name])])
        for message in consumer.consume(1_000, 0.5):
            assert message.error() is None, message.error()
            reached[message.topic(), message.partition()] = message.offset() + 1
            found[message.topic()].append(event_of(message))

    def is_last_there() -> bool:
        read()
        return any(f'"{last}"' in json.dumps(event["value"]) for event in found[f"{mode}.public.items"])

    def is_at_end() -> bool:
        read()
        ends = {
            (name, each): end
            for name in known
            if HEARTBEATS not in name
            for each, end in Admin(bootstrap).end_offsets(name).items()
        }
        # Markers of transactions follow the last record.
        return all(end - reached.get(place, 0) <= 1 for place, end in ends.items())

    wait_until(is_last_there, lambda: {topic: len(events) for topic, events in found.items()}, within_s=120)
    wait_until(is_at_end, lambda: (reached, known), within_s=60)
    consumer.close()
    return found


def event_of(message: Message) -> dict[str, Any]:
    value, key = message.value(), message.key()
    return {
        "key": None if key is None else json.loads(key),
        "value": None if value is None else json.loads(value),
        "headers": [(name, json.loads(data)) for name, data in message.headers() or [] if CONTEXT not in name],
    }


def comparable(event: dict[str, Any]) -> dict[str, Any]:
    """Without what differs for a reason."""
    value = event["value"]
    if value is None:
        return event
    payload = dict(value["payload"])
    if "status" in payload:
        payload["data_collections"] = sorted(payload["data_collections"] or [], key=str)
        return event | {"value": {"schema": value["schema"], "payload": payload}}
    for name in CLOCK & payload.keys():
        payload[name] = None
    if "source" in payload:
        source = payload["source"]
        is_timeless = payload["op"] == "r" or (payload["op"] == "m" and source["txId"] is None)
        hidden = VERSION | (PLACE if payload["op"] == "r" else set()) | (CLOCK if is_timeless else set())
        payload["source"] = {name: None if name in hidden else each for name, each in source.items()}
    return event | {"value": {"schema": value["schema"], "payload": payload}}


def is_about_nothing(event: dict[str, Any]) -> bool:
    """A tombstone of a table without a key."""
    return event["key"] is None and event["value"] is None


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in ours.keys() | theirs.keys():
            yield from differences(ours.get(name, "absent"), theirs.get(name, "absent"), f"{path}.{name}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            label = theirs[number].get("field", number) if isinstance(theirs[number], dict) else number
            yield from differences(one, other, f"{path}[{label}]")
    elif ours != theirs:
        yield f"{path}: ours {ours!r}, Debezium's {theirs!r}"


@pytest.mark.parametrize("mode", MODES)
def test_events_equal_those_of_debezium(captured: dict[str, tuple[Events, Events]], mode: str) -> None:
    theirs, ours = captured[mode]
    heartbeats = f"{HEARTBEATS}{mode}"
    wrong = [f"topic {topic}: only ours" for topic in ours.keys() - theirs.keys()]
    wrong += [f"topic {topic}: only Debezium's" for topic in theirs.keys() - ours.keys() - TWICE]
    for topic in sorted(theirs.keys() & ours.keys()):
        if topic == heartbeats:
            wrong += differences(ours[topic][0]["key"], theirs[topic][0]["key"], topic)
            continue
        expected = [event for event in theirs[topic] if not is_about_nothing(event)]
        if len(ours[topic]) != len(expected):
            wrong.append(f"{topic}: {len(ours[topic])} events, Debezium {len(expected)}")
        for number, (one, other) in enumerate(zip(ours[topic], expected, strict=False)):
            wrong += differences(comparable(one), comparable(other), f"{topic}[{number}]")
    wrong = [each for each in wrong if not any(re.match(known, each) for known in KNOWN)]
    assert wrong == [], "\n".join(wrong[:150])
