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
from odradek.connect.connectors.postgres.heartbeat import act
from odradek.connect.connectors.postgres.slot import SlotLost
from odradek.connect.connectors.postgres.source import PostgresCdc
from odradek.connect.records import Offset, Record, SourcePlace
from odradek.testing import Embedded
from support.connect_service import Service, connect_service, eventually
from support.postgres import LOG_FILE_BYTES, Postgres
from support.scraping import scrape_until

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
    connector = PostgresCdc(
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
    connector.connector = "NAME"
    return connector


def options(server: Postgres, database: psycopg.Connection) -> dict[str, Any]:
    """Those of a connector in a service."""
    return {
        "connector_class": "postgres-cdc",
        "database_hostname": "127.0.0.1",
        "database_port": server.port,
        "database_user": "postgres",
        "database_dbname": database.info.dbname,
        "topic_prefix": "shop",
    }


def is_active(database: psycopg.Connection, slot: str) -> bool | None:
    """None without a slot."""
    found = database.execute("SELECT active FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone()
    return found[0] if found is not None else None


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
    eventually(lambda: is_active(database, slot) is False)
    database.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    with pytest.raises(SlotLost, match=r"does not exist any more.*offsets NAME --reset"):
        read(offset).take(1)
    database.execute("CREATE TABLE noise (n int)")
    database.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    with pytest.raises(SlotLost, match=r"created again.*offsets NAME --reset"):
        read(offset).take(1)
    database.execute("SELECT pg_drop_replication_slot(%s)", [slot])


def test_a_lost_slot_stops_the_task_at_once(service: Service, server: Postgres, database: psycopg.Connection) -> None:
    given = {"snapshot_mode": "no_data", "restart_backoff_ms": 60_000}
    service.create("lost", **options(server, database), slot_name="lost", **given)
    eventually(lambda: is_active(database, "lost"))
    service.http.put("/connectors/lost/stop").raise_for_status()
    eventually(lambda: service.http.get("/connectors/lost/offsets").json()["offsets"])
    eventually(lambda: is_active(database, "lost") is False)
    database.execute("SELECT pg_drop_replication_slot('lost')")
    service.http.put("/connectors/lost/resume").raise_for_status()
    eventually(lambda: service.states("lost") == ["FAILED"], lambda: service.http.get("/connectors/lost/status").text)
    trace = service.http.get("/connectors/lost/status").json()["tasks"][0]["trace"]
    assert "odradek connect offsets lost --reset --yes; odradek connect resume lost" in trace
    # These commands, as a user would run them.
    service.http.put("/connectors/lost/stop").raise_for_status()
    service.http.delete("/connectors/lost/offsets").raise_for_status()
    service.http.put("/connectors/lost/resume").raise_for_status()
    eventually(lambda: is_active(database, "lost"))
    service.http.delete("/connectors/lost")


def test_the_log_that_the_slot_holds_back_is_a_metric(
    service: Service, server: Postgres, database: psycopg.Connection
) -> None:
    service.create("lagging", **options(server, database), slot_name="lagging")
    retained = "odradek_connect_replicationslot_retainedbytes"
    found = scrape_until(service.url, lambda now: now(retained, connector="lagging") is not None)
    assert (
        0
        <= found("odradek_connect_replicationslot_lagbytes", connector="lagging")
        <= found(retained, connector="lagging")
    )
    service.http.delete("/connectors/lagging")


def test_the_log_that_a_slot_holds_back_is_measured_while_its_connector_is_paused_and_after_a_restart(
    broker: Embedded, server: Postgres, database: psycopg.Connection
) -> None:
    names = {
        "group": "slots",
        "config_topic": "slots-configs",
        "offset_topic": "slots-offsets",
        "status_topic": "slots-status",
    }
    retained = "odradek_connect_replicationslot_retainedbytes"

    def held(service: Service, more_than: float) -> float:
        return scrape_until(service.url, lambda now: now(retained, connector="slots") > more_than)(
            retained, connector="slots"
        )

    def write_log() -> None:
        """More than one file of the log."""
        for _ in range(2):
            database.execute("CREATE TABLE IF NOT EXISTS filler (id int)")
            database.execute("INSERT INTO filler VALUES (1)")
            database.execute("SELECT pg_switch_wal()")

    with connect_service(broker.bootstrap_servers, **names) as service:
        service.create("slots", **options(server, database), slot_name="slots")
        eventually(lambda: is_active(database, "slots"))
        service.http.put("/connectors/slots/pause").raise_for_status()
        eventually(lambda: is_active(database, "slots") is False)
        write_log()
        before = held(service, LOG_FILE_BYTES)
    with connect_service(broker.bootstrap_servers, **names) as service:
        eventually(lambda: service.states("slots") == ["PAUSED"])
        write_log()
        held(service, before)
        service.http.put("/connectors/slots/stop").raise_for_status()
        write_log()
        held(service, before + LOG_FILE_BYTES)
        service.http.delete("/connectors/slots")


def test_heartbeats_are_written_and_execute_a_statement(database: psycopg.Connection, read: Any) -> None:
    database.execute("CREATE TABLE beats (at timestamptz)")
    query = "INSERT INTO beats VALUES (now())"
    reading = read(heartbeat_interval_ms=10, heartbeat_action_query=query, table_include_list=["public.items"])
    first, second = reading.take(2)
    assert (first.topic, first.key) == ("__debezium-heartbeat.shop", {"serverName": "shop"})
    assert second.value["ts_ms"] >= first.value["ts_ms"]
    assert database.execute("SELECT count(*) FROM beats").fetchone()[0] >= 2


def test_a_heartbeat_statement_that_waits_for_a_lock_is_logged_and_capture_continues(
    database: psycopg.Connection, read: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.connect.connectors.postgres.heartbeat.STATEMENT_S", 1)
    database.execute("CREATE TABLE beats (at timestamptz)")
    query = "INSERT INTO beats VALUES (now())"
    reading = read(heartbeat_interval_ms=10, heartbeat_action_query=query, table_include_list=["public.items"])
    reading.take(1)  # the slot exists: its creation would wait for the lock, too
    with psycopg.connect(database.info.dsn) as other:
        other.execute("LOCK TABLE beats")
        assert reading.take(2)[1].topic == "__debezium-heartbeat.shop"
    assert "heartbeat.action.query failed: canceling statement due to statement timeout" in caplog.text
    database.execute("INSERT INTO items VALUES (1, 'tea')")
    while reading.take(1)[0].topic != "shop.public.items":
        pass


def test_a_heartbeat_statement_that_loses_its_connection_is_an_error(database: psycopg.Connection) -> None:
    with psycopg.connect(database.info.dsn, autocommit=True) as other:
        act(other, "SELECT 1 / 0")
        act(other, "SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            act(other, "SELECT pg_terminate_backend(pg_backend_pid())")


def test_logical_messages_are_events(database: psycopg.Connection, read: Any) -> None:
    reading = read(snapshot_mode="no_data", message_prefix_exclude_list=["noise.*"])
    reading.place()
    with database.transaction():
        database.execute("INSERT INTO items VALUES (1, 'tea')")
        database.execute("SELECT pg_logical_emit_message(true, 'audit', 'by anna')")
    database.execute("SELECT pg_logical_emit_message(false, 'noise 1', '')")
    database.execute("SELECT pg_logical_emit_message(false, 'ping', E'\\\\x01')")
    _, inside, outside = reading.take(3)
    assert (inside.topic, inside.key, inside.value["op"]) == ("shop.message", {"prefix": "audit"}, "m")
    assert inside.value["message"] == {"prefix": "audit", "content": b"by anna"}
    assert inside.value["source"]["txId"] is not None
    assert (outside.value["message"]["prefix"], outside.value["source"]["txId"]) == ("ping", None)
    # A restart after the message does not read it again.
    database.execute("INSERT INTO items VALUES (2, 'milk')")
    assert read(outside.place.offset).take(1)[0].key == {"id": 2}


def test_transactions_have_a_begin_an_end_and_numbered_events(database: psycopg.Connection, read: Any) -> None:
    database.execute("CREATE TABLE other (id int PRIMARY KEY)")
    reading = read(snapshot_mode="no_data", provide_transaction_metadata=True)
    start = reading.place()
    with database.transaction():
        database.execute("INSERT INTO items VALUES (1, 'tea')")
        database.execute("INSERT INTO other VALUES (1)")
        database.execute("INSERT INTO items VALUES (2, 'milk')")
    found = reading.take(5)
    begin, *rows, end = found
    assert [begin.topic, end.topic] == ["shop.transaction"] * 2
    assert (begin.value["status"], begin.value["event_count"]) == ("BEGIN", None)
    orders = [
        (row.value["transaction"]["total_order"], row.value["transaction"]["data_collection_order"]) for row in rows
    ]
    assert orders == [(1, 1), (2, 1), (3, 2)]
    assert (end.value["status"], end.value["event_count"]) == ("END", 3)
    assert end.value["data_collections"] == [
        {"data_collection": "public.items", "event_count": 2},
        {"data_collection": "public.other", "event_count": 1},
    ]
    # A restart anywhere continues with the same numbers.
    database.execute("INSERT INTO other VALUES (9)")
    for written, record in enumerate(found[:-1]):
        rest = read(record.place.offset, provide_transaction_metadata=True).take(4 - written)
        assert [each.value for each in rest][-1] == end.value, written
        assert [each.key for each in rest] == [each.key for each in found[written + 1 :]]
    assert read(start, provide_transaction_metadata=True).take(1)[0].value == begin.value


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.connect.connectors.postgres.snapshot.CHUNK_ROWS", 70)


@pytest.mark.usefixtures("small_chunks")
def test_chunks_of_a_snapshot_are_read_in_parallel_once(database: psycopg.Connection, read: Any) -> None:
    database.execute("INSERT INTO items SELECT n, 'old' FROM generate_series(1, 1000) AS n")
    database.execute("CREATE TABLE pairs (a text, b int, PRIMARY KEY (b, a))")
    database.execute("INSERT INTO pairs SELECT 'k' || n % 7, n FROM generate_series(1, 500) AS n")
    database.execute("CREATE TABLE keyless (n int)")
    database.execute("INSERT INTO keyless SELECT generate_series(1, 100)")
    reading = read(snapshot_max_threads=3, snapshot_fetch_size=25)
    found = reading.take(100)
    database.execute("UPDATE items SET name = 'new' WHERE id > 10")
    found += reading.take(1500 + 990)
    rows = [record.value for record in found[:1600]]
    assert {row["op"] for row in rows} == {"r"}
    assert [row["source"]["snapshot"] for row in (rows[0], rows[-1])] == ["first", "last"]
    by_table: dict[str, list[Any]] = {}
    for record in found[:1600]:
        by_table.setdefault(record.topic, []).append(tuple(record.value["after"].values()))
    assert sorted(by_table["shop.public.items"]) == [(n, "old", None) for n in range(1, 1001)]
    assert sorted(by_table["shop.public.pairs"], key=lambda row: row[1]) == [(f"k{n % 7}", n) for n in range(1, 501)]
    assert sorted(by_table["shop.public.keyless"]) == [(n,) for n in range(1, 101)]
    assert {record.value["op"] for record in found[1600:]} == {"u"}


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
    ("timestamptz", "'2024-02-29 10:00:00.5+02'", "string", "io.debezium.time.ZonedTimestamp", "2024-02-29T08:00:00.500000Z"),
    ("timestamptz", "'0044-03-15 10:00:00+00 BC'", "string", "io.debezium.time.ZonedTimestamp", "-0043-03-15T10:00:00.000000Z"),
    ("timestamptz(0)", "'2024-02-29 10:00:00+00'", "string", "io.debezium.time.ZonedTimestamp", "2024-02-29T10:00:00Z"),
    ("bit(16)", "B'0000000000000001'", "bytes", "io.debezium.data.Bits", b"\x01"),
    ("money", "-1234.5", "bytes", "org.apache.kafka.connect.data.Decimal", Decimal("-1234.50")),
    ("tsvector", "'a b'", "string", "io.debezium.data.Tsvector", "'a' 'b'"),
    ("hstore", "'a=>1, b=>NULL'", "string", "io.debezium.data.Json", '{"a":"1","b":null}'),
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
    database.execute("CREATE EXTENSION hstore")
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


def test_constant_defaults_are_part_of_the_schema(database: psycopg.Connection, read: Any) -> None:
    columns = {
        "a": ("int DEFAULT 7", 7),
        "b": ("text DEFAULT 'it''s'", "it's"),
        "c": ("numeric(8,3) NOT NULL DEFAULT 1.5", Decimal("1.500")),
        "d": ("boolean DEFAULT true", True),
        "e": ("date DEFAULT '2020-01-01'", 18_262),
        "f": ("serial", 0),
        "g": ("timestamptz DEFAULT now()", None),
        "h": ("int DEFAULT (-3)", -3),
    }
    database.execute(
        f"CREATE TABLE d (id int PRIMARY KEY, {', '.join(f'{n} {kind}' for n, (kind, _) in columns.items())})"
    )
    database.execute("INSERT INTO d VALUES (1)")
    reading = read()
    (first,) = reading.take(1)
    database.execute("DELETE FROM d")
    for record in (first, reading.take(2)[0]):
        row = record.value_schema.of("after")
        assert {name: row.of(name).default for name in columns} == {name: value for name, (_, value) in columns.items()}
    # PostgreSQL sends only the key of a deleted row: required columns have their defaults.
    database.execute("INSERT INTO d (id) VALUES (2)")
    database.execute("DELETE FROM d")
    assert reading.take(3)[1].value["before"]["c"] == Decimal("1.500")


def test_the_topic_rebuilds_the_table(
    broker: Embedded, service: Service, server: Postgres, database: psycopg.Connection
) -> None:
    database.execute("INSERT INTO items SELECT n, 'old' FROM generate_series(1, 200) AS n")
    service.create("shop", **options(server, database), slot_name="rebuild", poll_interval_ms=50)
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
