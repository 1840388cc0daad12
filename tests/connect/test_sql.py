"""The SQL connectors against SQLite, a real PostgreSQL and a real MariaDB."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from odradek.connect.connectors.sql_sink import OFFSETS, SqlSink, SqlSinkConfig
from odradek.connect.connectors.sql_source import SqlSource, SqlSourceConfig
from odradek.connect.interface import BadRecord, RetriableError
from odradek.connect.records import INT64, STRING, TIMESTAMPS, Offset, Record, TopicPlace, struct
from support.mariadb import MariaDb
from support.postgres import Postgres

NOON = dt.datetime(2026, 1, 2, 12, 0, 0)  # noqa: DTZ001 (as in a column without a zone)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres.started() as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDb]:
    with MariaDb.started() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shop.db"
    if request.param == "mariadb":
        return request.getfixturevalue("mariadb").new_database()
    return request.getfixturevalue("postgres").new_database()


@pytest.fixture
def database(url: str) -> Iterator[sa.Engine]:
    made = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:").replace("mariadb:", "mariadb+pymysql:"))
    yield made
    made.dispose()


def run(database: sa.Engine, *statements: str) -> None:
    with database.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def rows(database: sa.Engine, query: str) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def read(source: SqlSource, offset: Offset | None = None) -> tuple[list[Record], Offset | None]:
    (partition,) = source.partitions()
    found = [record for record in source.read(partition, offset) if record is not None]
    return found, found[-1].place.offset if found else offset


_opened: list[SqlSource | SqlSink] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def source(url: str, **more: Any) -> SqlSource:
    made = SqlSource(SqlSourceConfig(connection_url=url, topic_prefix="db-", **more))
    _opened.append(made)
    return made


def sink(url: str, **more: Any) -> SqlSink:
    made = SqlSink(SqlSinkConfig(connection_url=url, **{"auto_create": True, "auto_evolve": True} | more))
    _opened.append(made)
    made.connector = "out"
    made.positions({("orders", 0): None})
    return made


def row(offset: int, value: object, key: object = None, **more: Any) -> Record:
    return Record(topic="orders", key=key, value=value, place=TopicPlace("orders", 0, offset), **more)


# --- source


def test_new_rows_are_found_by_an_incrementing_column_in_several_queries(url: str, database: sa.Engine) -> None:
    run(database, "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, price NUMERIC(8, 2))")
    run(database, *(f"INSERT INTO orders VALUES ({n}, 'tea', 1.50)" for n in range(1, 6)))
    reader = source(url, mode="incrementing", incrementing_column_name="id", batch_max_rows=2)
    first, offset = read(reader)
    assert [record.value["id"] for record in first] == [1, 2, 3, 4, 5]
    assert first[0].value == {"id": 1, "item": "tea", "price": Decimal("1.50")}
    assert first[0].topic == "db-orders"
    assert first[0].value_schema is not None
    assert first[0].value_schema.of("item") == STRING
    assert first[0].value_schema.of("price").parameters["scale"] == "2"
    (partition,) = reader.partitions()
    assert not reader.has_news(partition, offset)
    run(database, "INSERT INTO orders VALUES (7, 'rice', NULL)")
    assert reader.has_news(partition, offset)
    assert [record.value["id"] for record in read(reader, offset)[0]] == [7]


def test_changed_rows_are_found_by_timestamp_and_number_also_at_the_same_time(url: str, database: sa.Engine) -> None:
    run(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP(3) NOT NULL)")
    run(database, f"INSERT INTO t VALUES (1, '{NOON}'), (2, '{NOON}')")
    reader = source(
        url, mode="timestamp+incrementing", incrementing_column_name="id", timestamp_column_name="at", batch_max_rows=1
    )
    found, offset = read(reader)
    assert [record.value["id"] for record in found] == [1, 2]
    assert found[0].value["at"] == NOON.replace(tzinfo=dt.UTC)
    run(database, f"INSERT INTO t VALUES (3, '{NOON}')", f"UPDATE t SET at = '{NOON}.250' WHERE id = 1")
    found, offset = read(reader, offset)
    assert [record.value["id"] for record in found] == [3, 1]
    assert read(reader, offset)[0] == []


def test_a_query_and_bulk_mode_read_everything(url: str, database: sa.Engine) -> None:
    run(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO t VALUES (1, 5), (2, 6)")
    reader = source(url, mode="bulk", query="SELECT sum(n) AS total FROM t")
    (record,) = read(reader)[0]
    assert (record.topic, int(record.value["total"])) == ("db-", 11)
    by_number = source(url, mode="incrementing", incrementing_column_name="id", query="SELECT id, n FROM t")
    assert [record.value for record in read(by_number, {"incrementing": 1})[0]] == [{"id": 2, "n": 6}]


def test_what_is_missing_is_named(url: str, database: sa.Engine) -> None:
    run(database, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    with pytest.raises(ValueError, match=r"incrementing\.column\.name"):
        source(url, mode="incrementing")
    with pytest.raises(ValueError, match="there is no table 'u'; the database has t"):
        source(url, mode="bulk", table_whitelist=["u"]).partitions()
    with pytest.raises(ValueError, match="no column 'nr'"):
        read(source(url, mode="incrementing", incrementing_column_name="nr"))


def test_an_unreachable_database_is_an_outage() -> None:
    with pytest.raises(RetriableError, match="listing tables"):
        source("postgresql://127.0.0.1:1/none", mode="bulk").partitions()


# --- sink


def test_tables_are_created_and_extended_for_records_without_a_schema(url: str, database: sa.Engine) -> None:
    writer = sink(url)
    writer.write([row(0, {"id": 1, "item": "tea", "price": 2.5, "tags": ["a"], "ok": True})])
    writer.write([row(1, {"id": 2, "item": "rice", "note": "new"})])
    assert rows(database, "SELECT id, item, price, note FROM orders ORDER BY id") == [
        (1, "tea", 2.5, None),
        (2, "rice", None, "new"),
    ]


def test_types_come_from_the_schema(url: str, database: sa.Engine) -> None:
    schema = struct({"id": INT64, "at": TIMESTAMPS.or_null()}, name="Order")
    writer = sink(url)
    writer.write([row(0, {"id": 1 << 40, "at": NOON.replace(tzinfo=dt.UTC)}, value_schema=schema)])
    kinds = {column["name"]: str(column["type"]) for column in sa.inspect(database).get_columns("orders")}
    assert kinds["id"] == "BIGINT"
    assert kinds["at"] in ("TIMESTAMP", "DATETIME")


def test_upsert_keeps_the_last_value_of_a_key_and_tombstones_delete(url: str, database: sa.Engine) -> None:
    writer = sink(url, insert_mode="upsert", pk_mode="record_key", pk_fields=["id"], delete_enabled=True)
    writer.write([row(0, {"n": 1}, key=1), row(1, {"n": 2}, key=1), row(2, {"n": 3}, key=2)])
    assert rows(database, "SELECT id, n FROM orders ORDER BY id") == [(1, 2), (2, 3)]
    writer.write([row(3, None, key=2), row(4, {"n": 9}, key=1), row(5, None, key=1), row(6, {"n": 4}, key=3)])
    assert rows(database, "SELECT id, n FROM orders ORDER BY id") == [(3, 4)]


def test_rows_and_offsets_are_one_transaction(url: str, database: sa.Engine) -> None:
    writer = sink(url, pk_mode="record_value", pk_fields=["id"])
    writer.write([row(0, {"id": 1}), row(1, {"id": 2})])
    with pytest.raises(sa.exc.IntegrityError):
        writer.write([row(2, {"id": 3}), row(3, {"id": 1})])
    assert rows(database, "SELECT id FROM orders ORDER BY id") == [(1,), (2,)]
    assert rows(database, f"SELECT begin_offset, end_offset FROM {OFFSETS}") == [(0, 2)]
    again = sink(url)
    assert again.positions({("orders", 0): None}) == {("orders", 0): 2}  # killed before the group's first commit
    assert again.positions({("orders", 0): 2}) == {("orders", 0): 2}
    assert again.positions({("orders", 0): 1}) == {}  # a user has set the offset


def test_a_record_that_is_no_row_is_to_blame(url: str) -> None:
    writer = sink(url, pk_mode="record_key", pk_fields=["id"])
    for bad in (row(0, "text", key=1), row(0, {"n": 1}), row(0, None, key=1)):
        with pytest.raises(BadRecord):
            writer.write([bad])


def test_missing_tables_and_columns_are_refused_unless_they_may_be_made(url: str, database: sa.Engine) -> None:
    with pytest.raises(ValueError, match=r"set auto\.create=true"):
        sink(url, auto_create=False).write([row(0, {"id": 1})])
    run(database, "CREATE TABLE orders (id INTEGER)")
    with pytest.raises(ValueError, match=r"set auto\.evolve=true"):
        sink(url, auto_evolve=False).write([row(0, {"id": 1, "n": 2})])


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"insert_mode": "upsert"}, "set pk.mode"),
        ({"delete_enabled": True}, "pk.mode=record_key"),
        ({"pk_mode": "record_value"}, "pk.fields"),
    ],
)
def test_options_that_contradict_each_other_are_refused(config: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        SqlSink(SqlSinkConfig(connection_url="sqlite://", **config))


# --- MariaDB alone


@pytest.fixture
def shop(mariadb: MariaDb) -> Iterator[tuple[str, sa.Engine]]:
    url = mariadb.new_database()
    made = sa.create_engine(url.replace("mariadb:", "mariadb+pymysql:"))
    yield url, made
    made.dispose()


def test_tables_of_mariadb_are_changed_before_the_first_row_of_a_batch(shop: tuple[str, sa.Engine]) -> None:
    url, database = shop
    writer = sink(url, pk_mode="record_value", pk_fields=["id"])
    writer.write([row(0, {"id": 1})])
    # ALTER TABLE commits: had row 2 been written before it, row 2 would stay without its offset.
    with pytest.raises(sa.exc.IntegrityError):
        writer.write([row(1, {"id": 2}), row(2, {"id": 2, "note": "new"})])
    with pytest.raises(sa.exc.IntegrityError):
        writer.write([row(1, {"id": 2}), row(2, {"id": 1, "more": "new"})])
    assert rows(database, "SELECT id FROM orders") == [(1,)]
    assert rows(database, f"SELECT end_offset FROM {OFFSETS}") == [(1,)]


def test_text_keys_in_mariadb_differ_by_case_and_spaces(shop: tuple[str, sa.Engine]) -> None:
    url, database = shop
    writer = sink(url, insert_mode="upsert", pk_mode="record_key", pk_fields=["id"])
    writer.write([row(n, {"n": n}, key=key) for n, key in enumerate(["a", "A", "a ", "ä", "a"])])
    assert rows(database, "SELECT id, n FROM orders ORDER BY n") == [("A", 1), ("a ", 2), ("ä", 3), ("a", 4)]


def test_a_value_that_mariadb_refuses_is_no_outage(shop: tuple[str, sa.Engine]) -> None:
    url, database = shop
    run(database, "CREATE TABLE orders (id TINYINT, name VARCHAR(3), day DATE)")
    for value in ({"id": 1_000}, {"name": "long"}, {"id": "x"}, {"day": "2026-02-31"}):
        with pytest.raises(sa.exc.DBAPIError):
            sink(url).write([row(0, value)])
    assert rows(database, "SELECT * FROM orders") == []


def test_types_of_mariadb_are_read(shop: tuple[str, sa.Engine]) -> None:
    url, database = shop
    run(
        database,
        "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, tiny TINYINT, small SMALLINT UNSIGNED, big BIGINT UNSIGNED,"
        " price DECIMAL(8, 3), made YEAR, bits BIT(9), tags SET('b', 'a'), size ENUM('s', 'm'), at DATETIME(6),"
        " seen TIMESTAMP(3) NULL, body BLOB, note TEXT)",
        "INSERT INTO t VALUES (4294967295, -1, 65535, 18446744073709551615, 1.5, 2026, b'100000001', 'b,a', 'm',"
        f" '{NOON}.000001', '{NOON}.250', x'00ff', 'né')",
    )
    (record,), _ = read(source(url, mode="bulk"))
    noon = NOON.replace(tzinfo=dt.UTC)
    assert record.value == {
        "id": 4_294_967_295,
        "tiny": -1,
        "small": 65_535,
        "big": 18_446_744_073_709_551_615,
        "price": Decimal("1.500"),
        "made": 2026,
        "bits": 257,
        "tags": "a,b",
        "size": "m",
        "at": noon.replace(microsecond=1),
        "seen": noon.replace(microsecond=250_000),
        "body": b"\x00\xff",
        "note": "né",
    }
    kinds = {field.name: str(field.schema.kind) for field in record.value_schema.fields}
    assert kinds["id"] == "int64"
    assert (kinds["tiny"], kinds["small"], kinds["big"], kinds["bits"]) == ("int16", "int32", "bytes", "int64")
