"""Change data capture of SQLite: snapshot, changes, Debezium's envelope, and what survives restarts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from odradek.client import Consumer
from odradek.connect.connectors.sqlite_cdc import SqliteCdc, SqliteCdcConfig
from odradek.connect.records import Offset, Record
from odradek.testing import Embedded
from support.connect_service import Service, eventually

SERVER = {"server": "shop"}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, photo BLOB)")
        yield connection


def source(tmp_path: Path, **more: Any) -> SqliteCdc:
    return SqliteCdc(SqliteCdcConfig(database_path=str(tmp_path / "shop.db"), topic_prefix="shop", **more))


def read(connector: SqliteCdc, offset: Offset | None = None) -> list[Record]:
    """The records up to the first pause."""
    reading = connector.read(SERVER, offset)
    found = [record for record in takewhile(lambda record: record is not None, reading) if record is not None]
    reading.close()
    return found


def changes(found: list[Record]) -> list[tuple[object, object, object]]:
    return [
        ("tombstone", record.key, None)
        if record.value is None
        else (record.value["op"], record.value["before"], record.value["after"])
        for record in found
    ]


def item(number: int, name: str, price: float | None = None, photo: bytes | None = None) -> dict[str, object]:
    return {"id": number, "name": name, "price": price, "photo": photo}


def test_rows_that_exist_are_read_first_then_every_change_in_order(
    tmp_path: Path, database: sqlite3.Connection
) -> None:
    database.execute("INSERT INTO items VALUES (1, 'tea', 2.5, x'00ff')")
    connector = source(tmp_path)
    (first,) = read(connector)
    assert changes([first]) == [("r", None, item(1, "tea", 2.5, b"\x00\xff"))]
    assert (first.topic, first.key, first.value["source"]["snapshot"]) == ("shop.main.items", {"id": 1}, "last")
    database.execute("INSERT INTO items VALUES (2, 'it''s, \"hot\"', NULL, NULL)")
    database.execute("UPDATE items SET price = 1e-7 WHERE id = 1")
    database.execute("DELETE FROM items WHERE id = 2")
    found = read(connector, first.place.offset)
    assert changes(found) == [
        ("c", None, item(2, 'it\'s, "hot"')),
        ("u", item(1, "tea", 2.5, b"\x00\xff"), item(1, "tea", 1e-7, b"\x00\xff")),
        ("d", item(2, 'it\'s, "hot"'), None),
        ("tombstone", {"id": 2}, None),
    ]
    assert found[0].value["source"]["connector"] == "sqlite"
    assert found[0].value["source"]["table"] == "items"


def test_schemas_have_debeziums_names(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO items VALUES (1, 'tea', NULL, NULL)")
    (record,) = read(source(tmp_path))
    assert record.value_schema is not None
    assert record.key_schema is not None
    assert record.value_schema.name == "shop.main.items.Envelope"
    assert record.value_schema.of("after").name == "shop.main.items.Value"
    assert record.key_schema.name == "shop.main.items.Key"
    assert [field.name for field in record.value_schema.fields][:3] == ["before", "after", "source"]


def test_a_change_of_the_primary_key_is_a_delete_and_a_creation(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("INSERT INTO items VALUES (1, 'tea', NULL, NULL)")
    connector = source(tmp_path)
    offset = read(connector)[-1].place.offset
    database.execute("UPDATE items SET id = 5")
    found = read(connector, offset)
    assert changes(found) == [("d", item(1, "tea"), None), ("tombstone", {"id": 1}, None), ("c", None, item(5, "tea"))]
    assert found[0].header("__debezium.newkey") == {"id": 5}
    assert found[2].header("__debezium.oldkey") == {"id": 1}
    # Records without a place are written together with the next one that has a place.
    assert [record.place is None for record in found] == [True, True, False]


def test_no_change_between_snapshot_and_log_is_lost_or_repeated(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.executemany("INSERT INTO items VALUES (?, 'old', NULL, NULL)", [(n,) for n in range(10)])
    reading = source(tmp_path).read(SERVER, None)
    first = next(reading)
    database.execute("INSERT INTO items VALUES (99, 'meanwhile', NULL, NULL)")  # while the snapshot is read
    found = [first, *takewhile(lambda record: record is not None, reading)]
    reading.close()
    assert [record.value["op"] for record in found] == ["r"] * 10 + ["c"]
    assert [record.place.offset for record in found[:9]] == [{"snapshot": True}] * 9


def test_columns_that_are_added_while_it_runs_are_captured(tmp_path: Path, database: sqlite3.Connection) -> None:
    connector = source(tmp_path, snapshot_mode="no_data")
    assert read(connector) == []
    database.execute("INSERT INTO items VALUES (1, 'before', NULL, NULL)")
    database.execute("ALTER TABLE items ADD COLUMN stock INTEGER")
    assert connector.has_news(SERVER, {"seq": 1})  # the triggers do not write the new column yet
    found = read(connector, {"seq": 0})
    assert found[0].value["after"] == item(1, "before")
    database.execute("INSERT INTO items VALUES (2, 'after', NULL, NULL, 7)")
    (later,) = read(connector, found[-1].place.offset)
    assert later.value["after"] == item(2, "after") | {"stock": 7}


def test_changes_are_deleted_when_they_are_durable(tmp_path: Path, database: sqlite3.Connection) -> None:
    connector = source(tmp_path, snapshot_mode="no_data")
    read(connector)
    database.executemany("INSERT INTO items VALUES (?, 'x', NULL, NULL)", [(n,) for n in range(3)])
    connector.committed(SERVER, {"seq": 2})
    assert database.execute("SELECT seq FROM _odradek_changes").fetchall() == [(3,)]
    assert connector.has_news(SERVER, {"seq": 2})
    connector.committed(SERVER, {"seq": 3})
    assert not connector.has_news(SERVER, {"seq": 3})


def test_the_topic_rebuilds_the_table(
    broker: Embedded, service: Service, tmp_path: Path, database: sqlite3.Connection
) -> None:
    database.executemany("INSERT INTO items VALUES (?, 'old', ?, NULL)", [(n, n / 4) for n in range(200)])
    service.create(
        "shop",
        connector_class="sqlite-cdc",
        database_path=tmp_path / "shop.db",
        topic_prefix="shop",
        poll_interval_ms=50,
    )
    for n in range(200):
        database.execute("UPDATE items SET name = ? WHERE id = ?", [f"new {n}", n])
        if n % 3 == 0:
            database.execute("DELETE FROM items WHERE id = ?", [n])
    expected = {n: f"new {n}" for n in range(200) if n % 3}

    def rebuilt() -> dict[int, str]:
        rows: dict[int, str] = {}
        with Consumer("shop.main.items", bootstrap=broker.bootstrap_servers, stop_at_end=True) as consumer:
            for record in consumer:
                key = json.loads(record.key)["id"]
                if record.value is None:
                    rows.pop(key, None)
                elif json.loads(record.value)["after"] is not None:
                    rows[key] = json.loads(record.value)["after"]["name"]
        return rows

    eventually(lambda: service.http.get("/connectors/shop/topics").json()["shop"]["topics"])
    eventually(lambda: rebuilt() == expected)
    service.http.delete("/connectors/shop")
