"""The initial snapshot: all rows as of the moment at which the slot was created. Changes after it follow from the slot.

Every connection uses the snapshot that the slot has exported, so all of them see the same moment, and each row is read
once: in chunks by its primary key, or with its whole table.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

import psycopg
from psycopg import sql

from odradek.connect.connectors.debezium import Change, ChangeEvents
from odradek.connect.connectors.postgres.catalog import Catalog, TableName
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.slot import NewSlot
from odradek.connect.connectors.postgres.tables import CapturedTable, Tables, source_of
from odradek.connect.connectors.postgres.wal_stream import connected
from odradek.connect.records import Offset, Partition, Record, SourcePlace

# Rows of a chunk. Each thread holds at most one list of `snapshot.fetch.size` rows, and the queue one more of each.
CHUNK_ROWS = 50_000
WAIT_S = 0.1

Bound = tuple[str, ...] | None
"""The key of the last row before or in a chunk, as text."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows whose key is after `after`, up to `upto`. Both are None for a whole table."""

    table: TableName
    key: tuple[str, ...]
    after: Bound = None
    upto: Bound = None
    where: str | None = None  # SQL of a user

    def query(self, columns: Sequence[str]) -> sql.Composed:
        selected = sql.SQL(", ").join(map(sql.Identifier, columns))
        whole = sql.SQL("SELECT {} FROM {}").format(selected, sql.Identifier(self.table.schema, self.table.table))
        bounds = [_compared(self.key, ">", self.after), _compared(self.key, "<=", self.upto)]
        found: list[sql.Composable] = [each for each in bounds if each is not None]
        if self.where is not None:
            found.append(sql.SQL("({})").format(sql.SQL(self.where)))
        return whole + sql.SQL(" WHERE ") + sql.SQL(" AND ").join(found) if found else whole

    def order(self, limit: int, *, offset: int = 0, descending: bool = False) -> sql.Composed:
        how = sql.SQL("{} DESC") if descending else sql.SQL("{}")
        key = sql.SQL(", ").join(how.format(sql.Identifier(each)) for each in self.key)
        return sql.SQL(" ORDER BY {} LIMIT {} OFFSET {}").format(key, sql.Literal(limit), sql.Literal(offset))


def _compared(key: Sequence[str], how: str, bound: Bound) -> sql.Composed | None:
    if bound is None:
        return None
    names = sql.SQL(", ").join(map(sql.Identifier, key))
    values = sql.SQL(", ").join(map(sql.Literal, bound))
    return sql.SQL("({}) " + how + " ({})").format(names, values)


class Chunks:
    """Hands out the chunks of all tables, each to one thread."""

    def __init__(self, tables: Sequence[TableName], rows: int) -> None:
        self._waiting = list(tables)
        self._rows = rows
        self._lock = threading.Lock()
        self._next: Chunk | None = None

    def next(self, connection: psycopg.Connection) -> Chunk | None:
        """The end of a chunk is looked up in the index when the chunk is handed out."""
        with self._lock:
            if self._next is None:
                if not self._waiting:
                    return None
                table = self._waiting.pop(0)
                self._next = Chunk(table, Catalog(connection).primary_key(table.oid))
            chunk, self._next = self._next, None
            upto = self._end(connection, chunk) if chunk.key else None
            if upto is None:
                return chunk
            self._next = Chunk(chunk.table, chunk.key, after=upto)
            return Chunk(chunk.table, chunk.key, chunk.after, upto)

    def _end(self, connection: psycopg.Connection, chunk: Chunk) -> Bound:
        return first_key(connection, chunk.query(chunk.key) + chunk.order(1, offset=self._rows - 1))


def first_key(connection: psycopg.Connection, query: sql.Composed) -> Bound:
    found = connection.execute(query).pgresult
    if found is None or not found.ntuples:
        return None
    return tuple((found.get_value(0, column) or b"").decode() for column in range(found.nfields))


class Snapshot:
    """`records` yields the rows, and None while it waits. The last record has the offset after the snapshot."""

    def __init__(self, config: PostgresCdcConfig, events: ChangeEvents, partition: Partition, slot: NewSlot) -> None:
        self._config = config
        self._events = events
        self._partition = partition
        self._slot = slot
        self._begun: Offset = {"lsn": slot.lsn, "snapshot": "INITIAL"}
        self.done: Offset = {"lsn": slot.lsn}

    def _connected(self) -> psycopg.Connection:
        connection = connected(self._config)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(self._slot.snapshot)))
        return connection

    def records(self, names: Sequence[TableName]) -> Iterator[list[Record] | None]:
        """One list behind: only the last row of all completes the snapshot."""
        many = self._config.snapshot_max_threads > 1
        is_first, held = many, list[Record]()
        for rows in self._in_parallel(names) if many else self._one_by_one(names):
            if not rows:
                yield None
                continue
            if is_first:
                _mark(rows[0], "first")
                is_first = False
            if held:
                yield held
            held = rows
        if held:
            _mark(held[-1], "last")
            held[-1].place = SourcePlace(self._partition, self.done)
            yield held

    def _one_by_one(self, names: Sequence[TableName]) -> Iterator[list[Record]]:
        with closing(self._connected()) as connection:
            tables = Tables(self._config, Catalog(connection))
            for number, name in enumerate(names):
                before: list[Record] = []
                first: Record | None = None
                for rows in self._rows(connection, tables, Chunk(name, ())):
                    if first is None:
                        first = rows[0]
                        _mark(first, "first_in_data_collection" if number else "first")
                    if before:
                        yield before
                    before = rows
                if before:
                    if number or before[-1] is not first:
                        _mark(before[-1], "last_in_data_collection")
                    yield before

    def _in_parallel(self, names: Sequence[TableName]) -> Iterator[list[Record]]:
        """Empty lists while no rows arrive. Reads ahead at most one list for each thread."""
        count = self._config.snapshot_max_threads
        found: queue.Queue[list[Record] | BaseException | None] = queue.Queue(count)
        ended, chunks = threading.Event(), Chunks(names, CHUNK_ROWS)
        threads = [
            threading.Thread(target=self._read_chunks, args=(chunks, found, ended), name=f"snapshot-{n}", daemon=True)
            for n in range(count)
        ]
        for thread in threads:
            thread.start()
        try:
            while count:
                try:
                    rows = found.get(timeout=WAIT_S)
                except queue.Empty:
                    yield []
                    continue
                if isinstance(rows, BaseException):
                    raise rows
                if rows is None:
                    count -= 1
                else:
                    yield rows
        finally:
            ended.set()
            for thread in threads:
                thread.join()

    def _read_chunks(
        self, chunks: Chunks, found: queue.Queue[list[Record] | BaseException | None], ended: threading.Event
    ) -> None:
        def put(each: list[Record] | BaseException | None) -> None:
            while not ended.is_set():
                with suppress(queue.Full):
                    found.put(each, timeout=WAIT_S)
                    return

        try:
            with closing(self._connected()) as connection:
                tables = Tables(self._config, Catalog(connection))
                while not ended.is_set() and (chunk := chunks.next(connection)) is not None:
                    for rows in self._rows(connection, tables, chunk):
                        put(rows)
            put(None)
        except Exception as failed:  # noqa: BLE001 (raised by the thread that reads the queue)
            put(failed)

    def _rows(self, connection: psycopg.Connection, tables: Tables, chunk: Chunk) -> Iterator[list[Record]]:
        table, columns = tables.read_from_catalog(chunk.table)
        if not columns:
            return
        connection.execute(sql.SQL("DECLARE odradek NO SCROLL CURSOR FOR ") + chunk.query(columns))
        fetch = sql.SQL("FETCH {} FROM odradek").format(sql.Literal(self._config.snapshot_fetch_size))
        while (result := connection.execute(fetch).pgresult) is not None and result.ntuples:
            yield self._records(table, result)
        connection.execute("CLOSE odradek")

    def _records(self, table: CapturedTable, result: psycopg.pq.abc.PGresult) -> list[Record]:
        at_us = time.time_ns() // 1_000
        source = source_of(self._config, table.schema, table.table, at_us, "true") | {"lsn": self._slot.lsn}
        found: list[Record] = []
        for row in range(result.ntuples):
            fields = table.fields([result.get_value(row, column) for column in range(result.nfields)])
            change = Change(table=table.shape, operation="r", before=None, after=fields, source=source)
            found += self._events.records(change, self._partition, self._begun)
        return found


def _mark(record: Record, how: str) -> None:
    """Rows share the field `source`: the marked one gets its own."""
    value: dict[str, object] = record.value  # type: ignore[assignment]
    source: dict[str, object] = value["source"]  # type: ignore[assignment]
    value["source"] = source | {"snapshot": how}
