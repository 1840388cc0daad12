# ruff: noqa: E501 (the table of types)
"""Change data capture of PostgreSQL: snapshot, changes, types, and what survives restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from odradek.client import Consumer
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.slot import SlotLost
from odradek.connect.connectors.postgres.source import PostgresCdc
from odradek.connect.records import Offset, Record, SourcePlace
from odradek.testing import Embedded
from support.connect_service import Service, eventually
from support.postgres import Postgres

SERVER = {"server": "shop"}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres.started() as server:
        yield server


@pytest.fixture
def database(server: Postgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.new_database(), autocommit=True) as connection:
        connection.execute("CREATE TABLE items (id int PRIMARY KEY, name text NOT NULL, price numeric(8,2))")
        yield connection


def source(database: psycopg.Connection, **more: Any) -> PostgresCdc:
    info = database.info
    return PostgresCdc(
        PostgresCdcConfig(
            database_hostname=info.host,
            database_port=info.port,
            database_user=info.user,
            database_dbname=info.dbname,
            topic_prefix="shop",
            slot_name=f"slot_{info.dbname}",
            **more,
        )
    )


class Reading:
    """A running read. `until` returns the records up to the first that meets a condition."""

    def __init__(self, connector: PostgresCdc, offset: Offset | None = None) -> None:
        self.connector = connector
        self._reading = connector.read(SERVER, offset)
        self._left: list[Record] = []

    def take(self, count: int) -> list[Record]:
        while len(self._left) < count:
            each = next(self._reading)
            self._left += each if isinstance(each, list) else []
        found, self._left = self._left[:count], self._left[count:]
        return found

    def place(self) -> Offset:
        return next(each for each in self._reading if isinstance(each, SourcePlace)).offset

    def close(self) -> None:
        self._reading.close()
        self.connector.close()


@pytest.fixture
def read(database: psycopg.Connection) -> Iterator[Any]:
    opened: list[Reading] = []

    def begin(offset: Offset | None = None, **more: Any) -> Reading:
        for each in opened:
            each.close()
        opened.append(Reading(source(database, **more), offset))
        return opened[-1]

    yield begin
    for each in opened:
        each.close()


def changes(found: list[Record]) -> list[tuple[object, object, object]]:
    return [
        ("tombstone", record.key, None)
        if record.value is None
        else (record.value["op"], record.value["before"], record.value["after"])
        for record in found
    ]


def item(number: int, name: str, price: str | None = None) -> dict[str, object]:
    return {"id": number, "name": name, "price": None if price is None else Decimal(price)}


def test_rows_that_exist_are_read_first_then_every_change_in_order(database: psycopg.Connection, read: Any) -> None:
    database.execute("INSERT INTO items VALUES (1, 'tea', 2.5)")
    reading = read(skipped_operations=["none"])
    (first,) = reading.take(1)
    assert changes([first]) == [("r", None, item(1, "tea", "2.50"))]
    assert (first.topic, first.key, first.value["source"]["snapshot"]) == ("shop.public.items", {"id": 1}, "last")
    database.execute("INSERT INTO items VALUES (2, 'café', NULL)")
    database.execute("UPDATE items SET price = 3 WHERE id = 1")
    database.execute("UPDATE items SET id = 5 WHERE id = 1")
    database.execute("DELETE FROM items WHERE id = 2")
    database.execute("TRUNCATE items")
    found = reading.take(8)
    assert changes(found) == [
        ("c", None, item(2, "café")),
        ("u", None, item(1, "tea", "3.00")),
        ("d", item(1, ""), None),
        ("tombstone", {"id": 1}, None),
        ("c", None, item(5, "tea", "3.00")),
        ("d", item(2, ""), None),
        ("tombstone", {"id": 2}, None),
        ("t", None, None),
    ]
    assert found[2].header("__debezium.newkey") == {"id": 5}
    told = found[0].value["source"]
    assert (told["connector"], told["schema"], told["table"], told["snapshot"]) == (
        "postgresql",
        "public",
        "items",
        "false",
    )
    assert json.loads(told["sequence"])[1] == str(told["lsn"])


def test_a_change_during_the_snapshot_follows_it_once(database: psycopg.Connection, read: Any) -> None:
    database.execute("INSERT INTO items SELECT n, 'old' FROM generate_series(1, 10) AS n")
    reading = read()
    first = reading.take(1)
    database.execute("INSERT INTO items VALUES (99, 'meanwhile')")
    found = first + reading.take(10)
    assert [record.value["op"] for record in found] == ["r"] * 10 + ["c"]
    assert all("snapshot" in record.place.offset for record in found[:9])
    assert "snapshot" not in found[9].place.offset


def test_a_restart_inside_a_transaction_continues_after_the_last_change(
    database: psycopg.Connection, read: Any
) -> None:
    reading = read()
    start = reading.place()
    # Rows of one COPY share a place in the log.
    with database.transaction(), database.cursor().copy("COPY items (id, name) FROM STDIN") as copy:
        for number in range(6):
            copy.write_row((number, "new"))
    database.execute("INSERT INTO items VALUES (99, 'later')")
    all_of_them = read(start).take(7)
    assert [record.key["id"] for record in all_of_them] == [0, 1, 2, 3, 4, 5, 99]
    for written in range(7):
        rest = read(all_of_them[written].place.offset).take(6 - written)
        assert [record.key["id"] for record in rest] == [0, 1, 2, 3, 4, 5, 99][written + 1 :]


def test_the_slot_advances_only_after_offsets_are_committed(database: psycopg.Connection, read: Any) -> None:
    reading = read()
    start = reading.place()
    database.execute("INSERT INTO items VALUES (1, 'a')")
    (record,) = reading.take(1)

    def confirmed() -> int:
        query = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = %s"
        return int(database.execute(query, [reading.connector.config.slot_name]).fetchone()[0])

    assert confirmed() == start["lsn"]
    reading.connector.committed(SERVER, record.place.offset)
    eventually(lambda: confirmed() == record.place.offset["lsn"], confirmed)


def test_an_idle_position_lets_the_slot_advance(database: psycopg.Connection, read: Any) -> None:
    reading = read(table_include_list=["public.items"], publication_autocreate_mode="filtered")
    start = reading.place()
    assert not reading.connector.has_news(SERVER, {"lsn": 1 << 62})
    database.execute("CREATE TABLE noise AS SELECT n FROM generate_series(1, 1000) AS n")
    assert reading.connector.has_news(SERVER, start)
    assert reading.place()["lsn"] > start["lsn"]


def test_a_lost_slot_names_the_commands_for_a_new_snapshot(database: psycopg.Connection, read: Any) -> None:
    reading = read()
    offset = reading.place()
    reading.close()
    slot = reading.connector.config.slot_name
    eventually(lambda: database.execute("SELECT 1 FROM pg_replication_slots WHERE NOT active").fetchone())
    database.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    with pytest.raises(SlotLost, match=r"does not exist any more.*offsets NAME --reset"):
        read(offset).take(1)
    database.execute("CREATE TABLE noise (n int)")
    database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    with pytest.raises(SlotLost, match=r"created again.*offsets NAME --reset"):
        read(offset).take(1)
    database.execute("SELECT pg_drop_replication_slot(%s)", [slot])


def test_columns_that_are_added_while_it_runs_are_captured(database: psycopg.Connection, read: Any) -> None:
    reading = read(snapshot_mode="no_data")
    reading.place()
    database.execute("INSERT INTO items VALUES (1, 'before')")
    database.execute("ALTER TABLE items ADD COLUMN stock int")
    database.execute("INSERT INTO items VALUES (2, 'after', NULL, 7)")
    assert [record.value["after"] for record in reading.take(2)] == [item(1, "before"), item(2, "after") | {"stock": 7}]


def test_large_values_that_did_not_change(database: psycopg.Connection, read: Any) -> None:
    database.execute("CREATE TABLE docs (id int PRIMARY KEY, n int, body text)")
    database.execute("ALTER TABLE docs ALTER body SET STORAGE EXTERNAL")
    reading = read()
    reading.place()
    database.execute("INSERT INTO docs VALUES (1, 1, repeat('x', 10000))")
    database.execute("UPDATE docs SET n = 2")
    database.execute("ALTER TABLE docs REPLICA IDENTITY FULL")
    database.execute("UPDATE docs SET n = 3")
    _, second, third = reading.take(3)
    assert second.value["after"] == {"id": 1, "n": 2, "body": "__debezium_unavailable_value"}
    assert third.value["after"] == {"id": 1, "n": 3, "body": "x" * 10_000}
    assert third.value["before"] == {"id": 1, "n": 2, "body": "x" * 10_000}


def test_partitions_go_to_the_topic_of_their_table(database: psycopg.Connection, read: Any) -> None:
    database.execute("CREATE TABLE logs (id int PRIMARY KEY, t text) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE logs_1 PARTITION OF logs FOR VALUES FROM (0) TO (10)")
    database.execute("INSERT INTO logs VALUES (1, 'old')")
    reading = read(publish_via_partition_root=True)
    first = reading.take(1)
    database.execute("INSERT INTO logs VALUES (2, 'new')")
    assert [(each.topic, each.key) for each in first + reading.take(1)] == [
        ("shop.public.logs", {"id": 1}),
        ("shop.public.logs", {"id": 2}),
    ]


def test_tables_and_columns_are_left_out_by_pattern(database: psycopg.Connection, read: Any) -> None:
    database.execute("CREATE TABLE secrets (id int PRIMARY KEY)")
    database.execute("INSERT INTO secrets VALUES (1)")
    database.execute("INSERT INTO items VALUES (1, 'tea', 1)")
    reading = read(table_exclude_list=[r"public\.sec.*"], column_exclude_list=[r".*\.price"])
    first = reading.take(1)
    database.execute("INSERT INTO secrets VALUES (2)")
    database.execute("INSERT INTO items VALUES (2, 'milk', 1)")
    assert [each.value["after"] for each in first + reading.take(1)] == [
        {"id": 1, "name": "tea"},
        {"id": 2, "name": "milk"},
    ]


TYPES = [
    ("bool", "true", "boolean", None, True),
    ("int2", "-1", "int16", None, -1),
    ("int8", "9000000000", "int64", None, 9_000_000_000),
    ("float8", "0.1", "double", None, 0.1),
    ("numeric(10,3)", "'-1.5'", "bytes", "org.apache.kafka.connect.data.Decimal", Decimal("-1.500")),
    ("numeric", "'-129.5'", "struct", "io.debezium.data.VariableScaleDecimal", {"scale": 1, "value": b"\xfa\xf1"}),
    ("char(3)", "'a'", "string", None, "a  "),
    ("bytea", r"'\x00ff'", "bytes", None, b"\x00\xff"),
    ("bit(1)", "B'1'", "boolean", None, True),
    ("bit(10)", "B'1000000001'", "bytes", "io.debezium.data.Bits", b"\x01\x02"),
    ("json", """'{"a": 1}'""", "string", "io.debezium.data.Json", '{"a": 1}'),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "string", "io.debezium.data.Uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("date", "'2024-02-29'", "int32", "io.debezium.time.Date", 19_782),
    ("date", "'0044-03-15 BC'", "int32", "io.debezium.time.Date", -735_160),
    ("time(3)", "'10:20:30.123'", "int32", "io.debezium.time.Time", 37_230_123),
    ("time", "'10:20:30.123456'", "int64", "io.debezium.time.MicroTime", 37_230_123_456),
    ("timestamp(3)", "'2024-02-29 00:00:00.5'", "int64", "io.debezium.time.Timestamp", 1_709_164_800_500),
    ("timestamp", "'1969-12-31 23:59:59.999999'", "int64", "io.debezium.time.MicroTimestamp", -1),
    ("timestamptz", "'2024-02-29 10:00:00.5+02'", "string", "io.debezium.time.ZonedTimestamp", "2024-02-29T08:00:00.5Z"),
    ("timetz", "'10:00:00.5+02'", "string", "io.debezium.time.ZonedTime", "08:00:00.5Z"),
    ("interval", "'1 day -2 hours 3.5 seconds'", "int64", "io.debezium.time.MicroDuration", 79_203_500_000),
    ("mood", "'glad'", "string", "io.debezium.data.Enum", "glad"),
    ("percent", "50", "int32", None, 50),
    ("int[]", "'{1,NULL,3}'", "array", None, [1, None, 3]),
    ("text[]", """ARRAY['a, "b"', 'NULL', '', E'\\\\']""", "array", None, ['a, "b"', "NULL", "", "\\"]),
    ("point", "'(1,2)'", "struct", "io.debezium.data.geometry.Point", {"x": 1.0, "y": 2.0, "wkb": bytes.fromhex("0101000000000000000000f03f0000000000000040"), "srid": None}),
    ("inet", "'10.0.0.1'", "string", None, "10.0.0.1"),
]  # fmt: skip


def test_types_are_mapped_as_in_debezium(database: psycopg.Connection, read: Any) -> None:
    database.execute("CREATE TYPE mood AS ENUM ('glad', 'sad')")
    database.execute("CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100)")
    columns = ", ".join(f"c{n} {kind}" for n, (kind, *_) in enumerate(TYPES))
    database.execute(f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})")
    insert = ", ".join(text for _, text, *_ in TYPES)
    database.execute(f"INSERT INTO kinds VALUES (1, {insert})")
    reading = read()
    found = reading.take(1)
    database.execute(f"INSERT INTO kinds VALUES (2, {insert})")
    for record in found + reading.take(1):
        row = record.value_schema.of("after")
        for n, (kind, _, connect_kind, name, value) in enumerate(TYPES):
            assert record.value["after"][f"c{n}"] == value, kind
            assert (row.of(f"c{n}").kind, row.of(f"c{n}").name) == (connect_kind, name), kind


def test_the_topic_rebuilds_the_table(
    broker: Embedded, service: Service, server: Postgres, database: psycopg.Connection
) -> None:
    database.execute("INSERT INTO items SELECT n, 'old' FROM generate_series(1, 200) AS n")
    service.create(
        "shop",
        connector_class="postgres-cdc",
        database_hostname="127.0.0.1",
        database_port=server.port,
        database_user="postgres",
        database_dbname=database.info.dbname,
        topic_prefix="shop",
        slot_name="rebuild",
        poll_interval_ms=50,
    )
    for n in range(1, 201):
        database.execute("UPDATE items SET name = %s WHERE id = %s", [f"new {n}", n])
    database.execute("DELETE FROM items WHERE id % 3 = 0")

    def rebuilt() -> dict[int, str]:
        rows: dict[int, str] = {}
        level = {"isolation.level": "read_committed"}
        with Consumer("shop.public.items", bootstrap=broker.bootstrap_servers, stop_at_end=True, **level) as consumer:
            for record in consumer:
                key = json.loads(record.key)["id"]
                if record.value is None:
                    rows.pop(key, None)
                elif after := json.loads(record.value)["after"]:
                    rows[key] = after["name"]
        return rows

    wanted = dict(database.execute("SELECT id, name FROM items").fetchall())
    eventually(lambda: service.http.get("/connectors/shop/topics").json()["shop"]["topics"])
    eventually(lambda: rebuilt() == wanted, lambda: service.http.get("/connectors/shop/status").text)
    service.http.delete("/connectors/shop")
