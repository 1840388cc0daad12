"""Incremental snapshots of PostgreSQL: rows that exist, read again by signal while they change."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from connect.test_postgres_cdc import database, read, server
from odradek.connect.interface import NeedsUser
from odradek.connect.records import Record
from support.waiting import wait_until

__all__ = ["database", "read", "server"]  # fixtures

SIGNALS = "CREATE TABLE signals (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"
OPTIONS = {
    "signal_data_collection": "public.signals",
    "table_include_list": ["public.items", "public.pairs"],
    "snapshot_mode": "no_data",
    "incremental_snapshot_chunk_size": 10,
}


@pytest.fixture
def signals(database: psycopg.Connection) -> psycopg.Connection:
    database.execute(SIGNALS)
    return database


def send(database: psycopg.Connection, kind: str, **data: object) -> None:
    count = database.execute("SELECT count(*) FROM signals").fetchone()[0]
    told = {key.replace("_", "-"): value for key, value in data.items()}
    database.execute("INSERT INTO signals VALUES (%s, %s, %s)", [f"signal {count}", kind, json.dumps(told)])


def test_a_signal_reads_the_rows_of_a_table_in_chunks(signals: psycopg.Connection, read: Any) -> None:
    signals.execute("INSERT INTO items SELECT n, 'old' FROM generate_series(1, 95) AS n")
    reading = read(**OPTIONS)
    reading.place()
    send(signals, "execute-snapshot", data_collections=["public.it.*"], type="INCREMENTAL")
    found = reading.take(95)
    assert [record.key["id"] for record in found] == list(range(1, 96))
    assert {record.value["source"]["snapshot"] for record in found} == {"incremental"}
    assert "incremental_snapshot" in found[50].place.offset
    # Done: changes follow, and offsets have no state any more.
    signals.execute("UPDATE items SET name = 'new' WHERE id = 7")
    (after,) = reading.take(1)
    assert (after.value["op"], after.place.offset.keys()) == ("u", {"lsn"})


def test_a_restart_anywhere_continues_after_the_last_row(signals: psycopg.Connection, read: Any) -> None:
    signals.execute("CREATE TABLE pairs (a text, b int, PRIMARY KEY (b, a))")
    signals.execute("INSERT INTO pairs SELECT 'k' || n % 7, n FROM generate_series(1, 25) AS n")
    reading = read(**OPTIONS)
    reading.place()
    send(signals, "execute-snapshot", data_collections=["public.pairs"])
    whole = reading.take(25)
    for written in (0, 8, 9, 10, 20, 23):
        rest = read(whole[written].place.offset, **OPTIONS).take(24 - written)
        assert [record.key for record in rest] == [record.key for record in whole[written + 1 :]], written


def test_rows_that_change_meanwhile_have_their_last_value(signals: psycopg.Connection, read: Any) -> None:
    """The replica that the events make equals the table, whatever happens between the chunks."""
    signals.execute("INSERT INTO items SELECT n, 'old' FROM generate_series(1, 400) AS n")
    reading = read(**OPTIONS)
    reading.place()
    stop = threading.Event()
    # The changes go on when the reader does: otherwise a busy machine would have more to read before each chunk.
    paces = threading.Semaphore()

    def change() -> None:
        with psycopg.connect(signals.info.dsn, autocommit=True) as connection:
            turn = 0
            while not stop.is_set():
                paces.acquire(timeout=0.1)
                turn += 1
                connection.execute("UPDATE items SET name = %s WHERE id %% 5 = %s", [f"turn {turn}", turn % 5])
                connection.execute("DELETE FROM items WHERE id = %s", [turn])
                connection.execute("INSERT INTO items VALUES (%s, 'new')", [1000 + turn])
                connection.execute("UPDATE items SET id = id + 5000 WHERE id = %s", [400 - turn])

    changing = threading.Thread(target=change)
    changing.start()
    rows: dict[int, str] = {}
    try:
        send(signals, "execute-snapshot", data_collections=["public.items"])
        for count, record in enumerate(until_read(reading, "incremental")):
            apply(rows, record)
            if count % 100 == 0:
                paces.release()
    finally:
        stop.set()
        changing.join()
    signals.execute("INSERT INTO items VALUES (-1, 'last')")
    while -1 not in rows:
        apply(rows, reading.take(1)[0])
    assert rows == dict(signals.execute("SELECT id, name FROM items").fetchall())


def until_read(reading: Any, kind: str) -> Iterator[Record]:
    """Records up to the first whose offset says that the snapshot is over, after rows of it."""
    seen = False
    while True:
        (record,) = reading.take(1)
        yield record
        if record.value is not None and record.place is not None:
            seen = seen or record.value["source"]["snapshot"] == kind
            if seen and "incremental_snapshot" not in record.place.offset:
                return


def apply(rows: dict[int, str], record: Record) -> None:
    if record.value is None or record.value["op"] == "d":
        rows.pop(record.key["id"], None)
    else:
        rows[record.key["id"]] = record.value["after"]["name"]


def test_a_chunk_waits_for_transactions_that_the_database_does_not_show_yet(
    signals: psycopg.Connection, read: Any
) -> None:
    """A commit that waits for a standby server is in the log, but queries still see the row that it deletes."""
    signals.execute("INSERT INTO items SELECT n, 'old' FROM generate_series(1, 3) AS n")
    signals.execute("CREATE TABLE not_captured (n int)")
    reading = read(**OPTIONS)
    reading.place()
    signals.execute("ALTER SYSTEM SET synchronous_standby_names = 'none_has_this_name'")
    signals.execute("SELECT pg_reload_conf()")
    try:
        wait_until(lambda: waits(signals.info.dsn, "INSERT INTO not_captured VALUES (1)"), "commits wait")
        with unacknowledged(signals.info.dsn, "DELETE FROM items WHERE id = 2"):
            assert [record.value["op"] for record in reading.take(2) if record.value is not None] == ["d"]
            assert len(signals.execute("SELECT id FROM items").fetchall()) == 3
            signals.execute("SET synchronous_commit = local")
            send(signals, "execute-snapshot", data_collections=["public.items"])
            signals.execute("INSERT INTO items VALUES (4, 'change')")
            assert [record.key["id"] for record in reading.take(1)] == [4]
    finally:
        signals.execute("ALTER SYSTEM RESET synchronous_standby_names")
        signals.execute("SELECT pg_reload_conf()")
    assert [record.key["id"] for record in reading.take(3)] == [1, 3, 4]


def waits(dsn: str, statement: str) -> bool:
    with unacknowledged(dsn, statement) as waits:
        return waits


@contextmanager
def unacknowledged(dsn: str, statement: str) -> Iterator[bool]:
    """The statement is committed by another connection, which waits for a standby server until the block ends.

    False if it did not have to wait: the checkpointer learns of a new setting later than other processes.
    """
    with psycopg.connect(dsn, autocommit=True) as connection, ThreadPoolExecutor(1) as threads:
        pid = connection.info.backend_pid
        running = threads.submit(connection.execute, statement)
        try:
            with psycopg.connect(dsn, autocommit=True) as other:
                wait = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'SyncRep'"
                wait_until(lambda: running.done() or other.execute(wait, [pid]).fetchone(), "the commit waits")
            yield not running.done()
        finally:
            connection.cancel()
            running.result()


def test_a_snapshot_with_a_condition_is_paused_resumed_and_stopped(signals: psycopg.Connection, read: Any) -> None:
    signals.execute("INSERT INTO items SELECT n, 'old' FROM generate_series(1, 100) AS n")
    reading = read(**OPTIONS)
    reading.place()
    with signals.transaction():
        send(signals, "pause-snapshot")
        send(
            signals,
            "execute-snapshot",
            data_collections=["public.items"],
            additional_conditions=[{"data-collection": "public.items", "filter": "id > 50 OR id = 3"}],
        )
    signals.execute("INSERT INTO items VALUES (0, 'change')")
    assert [record.key["id"] for record in reading.take(1)] == [0]
    send(signals, "resume-snapshot")
    assert [record.key["id"] for record in reading.take(11)] == [3, *range(51, 61)]
    send(signals, "stop-snapshot", data_collections=["public.items"], type="incremental")
    signals.execute("INSERT INTO items VALUES (1000, 'after')")
    rest = []
    while not rest or rest[-1].value["op"] == "r":
        rest += reading.take(1)
    assert rest[-1].key == {"id": 1000}
    assert len(rest) < 30


def test_wrong_signals_are_logged(signals: psycopg.Connection, read: Any, caplog: pytest.LogCaptureFixture) -> None:
    reading = read(**OPTIONS)
    reading.place()
    send(signals, "take-snapshot")
    send(signals, "execute-snapshot", data_collections="public.items")
    send(signals, "execute-snapshot", data_collections=["public.nothing"])
    send(signals, "log", message="hello")
    signals.execute("INSERT INTO items VALUES (1, 'tea')")
    with caplog.at_level("INFO", "odradek.connect.postgres"):
        reading.take(1)
    assert "unknown type 'take-snapshot'" in caplog.text
    assert "Expected `array`, got `str`" in caplog.text
    assert "hello" in caplog.text


def test_signals_need_a_table_in_the_publication(database: psycopg.Connection, read: Any) -> None:
    with pytest.raises(NeedsUser, match=r"CREATE TABLE public\.signals.*ALTER PUBLICATION"):
        read(**OPTIONS).take(1)
