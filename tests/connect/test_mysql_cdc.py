"""`mysql-cdc` against a real MariaDB: Debezium's events of a snapshot, of changes, and across restarts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from odradek.connect.connectors.mysql import source
from odradek.connect.connectors.mysql.config import MysqlCdcConfig
from odradek.connect.connectors.mysql.source import MysqlCdc
from odradek.connect.interface import RetriableError
from odradek.connect.records import Record, SourcePlace
from odradek.testing import Embedded
from support.connect_service import PATIENCE_S, Service, eventually
from support.mariadb import MariaDb

TYPES = """
CREATE TABLE types (
 id INT PRIMARY KEY, t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, su SMALLINT UNSIGNED, m MEDIUMINT,
 mu MEDIUMINT UNSIGNED, iu INT UNSIGNED, b BIGINT, bu BIGINT UNSIGNED, f FLOAT, d DOUBLE, n DECIMAL(10, 3),
 b1 BIT(1), b12 BIT(12), y YEAR, da DATE, ti TIME, ti6 TIME(6), dt DATETIME, dt6 DATETIME(6), ts TIMESTAMP NULL,
 ts3 TIMESTAMP(3) NULL, c CHAR(5), v VARCHAR(300), l1 VARCHAR(10) CHARACTER SET latin1, tx TEXT, bl BLOB,
 bi BINARY(3), e ENUM('one', 'it''s', 'drei'), st SET('a', 'b', 'c'), j JSON, p POINT, z DATE NOT NULL
)
"""
ROW = """
INSERT INTO types VALUES (%s, -128, 255, -32768, 65535, -8388608, 16777215, 4294967295, -9223372036854775808,
 18446744073709551615, 1.1, 2.5, -1234567.125, b'1', b'100000000011', 2026, '2026-11-19', '-01:02:03',
 '23:59:59.000001', '2026-11-19 01:02:03', '2026-11-19 01:02:03.456789', '2026-11-19 01:02:03',
 '2026-11-19 01:02:03.450', 'abc', 'grüße €', 'é', 'text', x'00ff', x'010203', 'it''s', 'c,a', '{"k": 1}', POINT(1, 2),
 '0000-00-00')
"""
SECOND = 1_795_050_123  # 2026-11-19 01:02:03 UTC
EXPECTED = {
    "t": -128,
    "tu": 255,
    "s": -32768,
    "su": 65535,
    "m": -8388608,
    "mu": 16777215,
    "iu": 4294967295,
    "b": -(2**63),
    "bu": -1,
    "f": 1.100000023841858,
    "d": 2.5,
    "n": "-1234567.125",
    "b1": True,
    "b12": "Awg=",
    "y": 2026,
    "da": 20776,
    "ti": -3_723_000_000,
    "ti6": 86_399_000_001,
    "dt": SECOND * 1_000,
    "dt6": SECOND * 1_000_000 + 456_789,
    "ts": "2026-11-19T01:02:03Z",
    "ts3": "2026-11-19T01:02:03.45Z",
    "c": "abc",
    "v": "grüße €",
    "l1": "é",
    "tx": "text",
    "bl": "AP8=",
    "bi": "AQID",
    "e": "it's",
    "st": "a,c",
    "j": '{"k": 1}',
    "p": {"x": 1.0, "y": 2.0, "wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA", "srid": None},
    "z": 0,
}


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDb]:
    with MariaDb.started() as server:
        yield server


class Database:
    def __init__(self, server: MariaDb) -> None:
        self.server = server
        self.name = server.new_database().rpartition("/")[2]

    def run(self, *statements: str, **more: Any) -> None:
        with closing(self.server.connection(self.name, charset="utf8mb4", **more)) as connection:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement)
            connection.commit()


@pytest.fixture
def database(server: MariaDb) -> Database:
    return Database(server)


def capture(service: Service, name: str, database: Database, **more: object) -> str:
    """Starts a connector, and returns the prefix of its topics."""
    given = {
        "connector.class": "mysql-cdc",
        "database.hostname": "127.0.0.1",
        "database.port": database.server.port,
        "database.user": "test",
        "database.server.id": 1_000 + sum(map(ord, name)),
        "database.include.list": database.name,
        "topic.prefix": name,
        "poll.interval.ms": 50,
    } | {key.replace("_", "."): value for key, value in more.items()}
    service.create(name, **given)
    return f"{name}.{database.name}"


class Topic:
    """Reads the committed records of a topic with one partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"reads-{topic}"})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._found: list[tuple[Any, Any]] = []

    def take(self, count: int) -> list[tuple[Any, Any]]:
        """The next records: keys and values."""

        eventually(lambda: self._poll() >= count, lambda: f"{len(self._found)} of {count} records")
        taken, self._found = self._found[:count], self._found[count:]
        return taken

    def arrived(self) -> list[tuple[Any, Any]]:
        """What has come until now."""
        self._poll()
        taken, self._found = self._found, []
        return taken

    def _poll(self) -> int:
        for each in self._consumer.consume(1_000, 0.1):
            if each.error() is None:
                self._found.append(tuple(json.loads(part) if part else None for part in (each.key(), each.value())))
        return len(self._found)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def topic(broker: Embedded) -> Iterator[Any]:
    opened: list[Topic] = []

    def open_topic(name: str) -> Topic:
        opened.append(Topic(broker.bootstrap_servers, name))
        return opened[-1]

    yield open_topic
    for each in opened:
        each.close()


def test_snapshot_and_changes_have_debeziums_values_for_every_type(
    service: Service, database: Database, topic: Any
) -> None:
    database.run("SET sql_mode=''", TYPES, ROW % 1)
    topics = capture(service, "types", database)
    read = topic(f"{topics}.types")
    ((key, snapshot),) = read.take(1)
    assert key == {"id": 1}
    assert (snapshot["op"], snapshot["source"]["snapshot"], snapshot["before"]) == ("r", "last", None)
    assert snapshot["after"] == {"id": 1} | EXPECTED
    database.run("SET sql_mode=''", ROW % 2)
    ((_, change),) = read.take(1)
    assert change["op"] == "c"
    assert change["after"] == {"id": 2} | EXPECTED
    source = change["source"]
    assert (source["connector"], source["db"], source["table"]) == ("mariadb", database.name, "types")
    assert (source["server_id"], source["snapshot"], source["row"]) == (1, "false", 0)
    assert source["gtid"].startswith("0-1-")
    assert source["file"].startswith("binlog.")


def test_updates_deletes_tombstones_and_changed_keys(service: Service, database: Database, topic: Any) -> None:
    database.run(
        "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20))", "INSERT INTO items VALUES (1, 'a'), (2, 'b')"
    )
    topics = capture(service, "events", database)
    read = topic(f"{topics}.items")
    assert [value["source"]["snapshot"] for _, value in read.take(2)] == ["true", "last"]
    database.run(
        "BEGIN",
        "UPDATE items SET name = 'changed'",
        "DELETE FROM items WHERE id = 1",
        "UPDATE items SET id = 3",
        "COMMIT",
    )
    found = [(key["id"], value and (value["op"], value["before"], value["after"])) for key, value in read.take(7)]
    changed = {"id": 2, "name": "changed"}
    assert found == [
        (1, ("u", {"id": 1, "name": "a"}, {"id": 1, "name": "changed"})),
        (2, ("u", {"id": 2, "name": "b"}, changed)),
        (1, ("d", {"id": 1, "name": "changed"}, None)),
        (1, None),
        (2, ("d", changed, None)),
        (2, None),
        (3, ("c", None, {"id": 3, "name": "changed"})),
    ]


def test_changed_tables_and_new_tables_are_followed(service: Service, database: Database, topic: Any) -> None:
    database.run("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    topics = capture(service, "ddl", database, table_exclude_list=r".*\.secret")
    read = topic(f"{topics}.a")
    assert read.take(1)[0][1]["after"] == {"id": 1}
    database.run(
        "ALTER TABLE a ADD name VARCHAR(10) DEFAULT 'none' FIRST, ADD n BIGINT UNSIGNED",
        "INSERT INTO a (id, n) VALUES (2, 7)",
        "ALTER TABLE a DROP n",
        "INSERT INTO a (id) VALUES (3)",
        "CREATE TABLE secret (id INT PRIMARY KEY)",
        "INSERT INTO secret VALUES (1)",
        "CREATE TABLE `new table` (`a key` INT, part INT, PRIMARY KEY (part, `a key`))",
        "INSERT INTO `new table` VALUES (1, 2)",
    )
    assert [value["after"] for _, value in read.take(2)] == [
        {"name": "none", "id": 2, "n": 7},
        {"name": "none", "id": 3},
    ]
    ((key, _),) = topic(f"{topics}.new_table").take(1)
    assert list(key.items()) == [("part", 2), ("a key", 1)]
    assert f"{topics}.secret" not in service.steward.admin.topics()


def test_a_restart_inside_a_transaction_repeats_and_skips_nothing(
    service: Service, database: Database, topic: Any
) -> None:
    database.run("CREATE TABLE many (id INT PRIMARY KEY AUTO_INCREMENT, n INT)", "INSERT INTO many (n) VALUES (0)")
    topics = capture(service, "restarts", database, **{"batch.records.max": 7, "snapshot.fetch.size": 3})
    read = topic(f"{topics}.many")
    read.take(1)
    numbers = ", ".join(f"({n})" for n in range(1, 400))
    database.run("BEGIN", f"INSERT INTO many (n) VALUES {numbers}", "UPDATE many SET n = n + 1000", "COMMIT")
    for _ in range(3):
        # Wherever the task is: each restart continues from its last batch.
        assert service.http.post("/connectors/restarts/restart?includeTasks=true").status_code in (202, 204)
    found = read.take(399 + 400)
    assert [value["after"]["n"] for _, value in found] == [*range(1, 400), *range(1000, 1400)]
    database.run("INSERT INTO many (n) VALUES (7)")
    assert read.take(1)[0][1]["after"]["n"] == 7
    offset = service.http.get("/connectors/restarts/offsets").json()["offsets"][0]["offset"]
    assert offset.keys() == {"file", "pos"}


def test_rows_that_change_during_the_snapshot_are_captured_once(
    service: Service, database: Database, topic: Any
) -> None:
    database.run("CREATE TABLE busy (id INT PRIMARY KEY, n INT)")
    rows = ", ".join(f"({n}, 0)" for n in range(3_000))
    database.run(f"INSERT INTO busy VALUES {rows}")
    topics = capture(service, "busy", database, **{"snapshot.fetch.size": 10})
    for n in range(1, 30):
        database.run(f"UPDATE busy SET n = {n} WHERE id < 10")
    read = topic(f"{topics}.busy")
    last: dict[int, int] = {}

    def is_current() -> bool:
        for key, value in read.arrived():
            before = last.get(key["id"])
            assert value["op"] != "u" or before is None or value["before"]["n"] == before
            last[key["id"]] = value["after"]["n"]
        return len(last) == 3_000 and all(last[key] == 29 for key in range(10))

    eventually(is_current, lambda: str(len(last)))


def reading(database: Database, prefix: str, **more: object) -> Iterator[Any]:
    """What the source yields, from now on."""
    config = MysqlCdcConfig(
        database_hostname="127.0.0.1",
        database_port=database.server.port,
        database_user="test",
        database_server_id=2_000 + sum(map(ord, prefix)),
        database_include_list=[database.name],
        topic_prefix=prefix,
        snapshot_mode="no_data",
        **more,
    )
    return MysqlCdc(config).read({"server": prefix}, None)


def test_heartbeats_are_written_and_execute_a_statement(database: Database) -> None:
    database.run("CREATE TABLE beats (n INT PRIMARY KEY AUTO_INCREMENT)")
    query = f"INSERT INTO {database.name}.beats VALUES ()"
    more = {"heartbeat_interval_ms": 20, "heartbeat_action_query": query, "table_include_list": [r".*\.none"]}
    with closing(reading(database, "beating", **more)) as found:
        beats = [next(each for each in found if isinstance(each, Record)) for _ in range(3)]
    first, _, third = beats
    assert (first.topic, first.key) == ("__debezium-heartbeat.beating", {"serverName": "beating"})
    assert third.value["ts_ms"] >= first.value["ts_ms"]
    # The position moves on with the statements, though no table is captured.
    assert third.place.offset != first.place.offset
    assert third.place.offset.keys() == {"file", "pos"}
    assert MysqlCdc(MysqlCdcConfig(**_NEEDED, heartbeat_interval_ms=1)).stays()
    assert not MysqlCdc(MysqlCdcConfig(**_NEEDED)).stays()


@pytest.mark.parametrize(
    "statement", ["INSERT INTO {}.beats (missing) VALUES (1)", "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not now'"]
)
def test_a_heartbeat_statement_that_fails_is_logged_and_capture_continues(
    database: Database, caplog: pytest.LogCaptureFixture, statement: str
) -> None:
    database.run("CREATE TABLE beats (n INT PRIMARY KEY AUTO_INCREMENT)")
    more = {"heartbeat_interval_ms": 20, "heartbeat_action_query": statement.format(database.name)}
    with closing(reading(database, "failing", **more)) as found:
        beats = [next(each for each in found if isinstance(each, Record)) for _ in range(2)]
    assert {beat.topic for beat in beats} == {"__debezium-heartbeat.failing"}
    assert caplog.text.count("heartbeat.action.query failed") == 2


def test_a_heartbeat_statement_that_loses_its_connection_is_retriable(database: Database) -> None:
    more = {"heartbeat_interval_ms": 20, "heartbeat_action_query": "KILL CONNECTION_ID()"}
    with closing(reading(database, "killed", **more)) as found, pytest.raises(RetriableError):
        next(each for each in found if isinstance(each, Record))


@pytest.mark.parametrize(
    "statement", ["INSERT INTO {}.beats VALUES ()", "SELECT SLEEP(1000)"], ids=["waits for a lock", "runs long"]
)
def test_a_heartbeat_statement_that_does_not_end_is_logged_and_capture_continues(
    database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr(source, "LOCK_WAIT_S", 1, raising=False)
    monkeypatch.setattr(source, "STATEMENT_S", 2, raising=False)
    database.run("CREATE TABLE beats (n INT PRIMARY KEY AUTO_INCREMENT)")
    more = {"heartbeat_interval_ms": 20, "heartbeat_action_query": statement.format(database.name)}
    beats: list[Record] = []

    def read() -> None:
        with closing(reading(database, "stuck", **more)) as found:
            beats.append(next(each for each in found if isinstance(each, Record)))

    with closing(database.server.connection(database.name)) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLES beats WRITE")
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(PATIENCE_S)
        assert beats, "the statement holds up capture"
    assert "heartbeat.action.query failed" in caplog.text


_NEEDED = {"database_hostname": "h", "database_user": "u", "database_server_id": 7, "topic_prefix": "p"}


def test_the_position_moves_while_other_databases_are_busy_all_the_time(database: Database, server: MariaDb) -> None:
    other = Database(server)
    other.run("CREATE TABLE busy (n INT)")
    stop, is_read = threading.Event(), threading.Event()

    def write() -> None:
        """Until the position has moved, or for so long that it would have."""
        until_s = time.monotonic() + PATIENCE_S
        with closing(server.connection(other.name, autocommit=True)) as connection, connection.cursor() as cursor:
            while not stop.is_set() and time.monotonic() < until_s:
                cursor.execute("INSERT INTO busy VALUES (1)")
        if stop.is_set():
            is_read.set()

    writer = threading.Thread(target=write, daemon=True)
    with closing(reading(database, "patient")) as found:
        begun = next(found)
        writer.start()
        try:
            moved = {each.offset["pos"] for each in islice(found, 40) if isinstance(each, SourcePlace)}
        finally:
            stop.set()
            writer.join()
    assert is_read.is_set(), "the source yielded nothing while the server was busy"
    assert moved
    assert all(at > begun.offset["pos"] for at in moved)


def test_servers_and_offsets_that_do_not_suffice_are_named(service: Service, database: Database) -> None:
    database.run("CREATE TABLE plain (id INT PRIMARY KEY)", "INSERT INTO plain VALUES (1)")
    database.run("SET GLOBAL binlog_row_metadata = MINIMAL")
    try:
        capture(service, "minimal", database, **{"restart.attempts.max": 0})
        eventually(lambda: service.states("minimal") == ["FAILED"])
    finally:
        database.run("SET GLOBAL binlog_row_metadata = FULL")
    trace = service.http.get("/connectors/minimal/status").json()["tasks"][0]["trace"]
    assert "SET GLOBAL binlog_row_metadata = FULL" in trace
    capture(service, "lost", database, **{"restart.attempts.max": 0})
    eventually(lambda: service.http.get("/connectors/lost/offsets").json()["offsets"])
    assert service.http.put("/connectors/lost/stop").status_code == 204
    eventually(lambda: service.http.get("/connectors/lost/status").json()["connector"]["state"] == "STOPPED")
    gone = {"offsets": [{"partition": {"server": "lost"}, "offset": {"file": "binlog.999999", "pos": 4}}]}
    assert service.http.patch("/connectors/lost/offsets", json=gone).status_code == 200
    assert service.http.put("/connectors/lost/resume").status_code == 202
    eventually(lambda: service.states("lost") == ["FAILED"])
    assert "binlog.999999" in service.http.get("/connectors/lost/status").json()["tasks"][0]["trace"]
