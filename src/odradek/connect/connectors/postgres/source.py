"""`postgres-cdc`: every change of a PostgreSQL database as Debezium's change events, after a snapshot of its rows."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from odradek import __version__
from odradek.connect.connectors.debezium import Change, ChangeEvents
from odradek.connect.connectors.postgres import slot
from odradek.connect.connectors.postgres.catalog import Catalog, TableName
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.pgoutput import (
    Begin,
    Commit,
    LogicalMessage,
    Relation,
    RowChange,
    Truncate,
    decoded,
)
from odradek.connect.connectors.postgres.tables import CapturedTable, Tables
from odradek.connect.connectors.postgres.wal_stream import Keepalive, WalData, WalStream, connected, lsn_number
from odradek.connect.interface import RetriableError, Source
from odradek.connect.records import Offset, Partition, Record, SourcePlace

WAIT_S = 0.1
# An idle position is stored after this time, so that the slot does not hold back the log of other tables.
IDLE_S = 1.0

Reading = Iterator[Record | SourcePlace | None]


class PostgresCdc(Source[PostgresCdcConfig]):
    """One partition. The offset `lsn` is the end of the last transaction that is complete in the topics.

    Inside a transaction the offset also has its id, and the place and number of the last change: a restart reads the
    transaction again and skips what was written. A snapshot that was interrupted begins again, with a new slot.
    """

    Config: ClassVar[type] = PostgresCdcConfig

    def __init__(self, config: PostgresCdcConfig) -> None:
        super().__init__(config)
        self._looking: psycopg.Connection | None = None
        self._stream: WalStream | None = None
        self._events = ChangeEvents(tombstones=config.tombstones_on_delete)

    def partitions(self) -> Sequence[Partition]:
        return [{"server": self.config.topic_prefix}]

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:  # noqa: ARG002
        """Whether the server has written anything to its log: only decoding tells whether it is of our tables."""
        if not _is_streaming(offset):
            return True
        if self._looking is None or self._looking.closed:
            self._looking = connected(self.config)
        found = self._looking.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        return found is not None and lsn_number(found[0]) > _lsn(offset)

    def committed(self, partition: Partition, offset: Offset) -> None:  # noqa: ARG002
        if self._stream is not None and _is_streaming(offset):
            self._stream.confirm(_lsn(offset))

    def close(self) -> None:
        if self._looking is not None:
            self._looking.close()
        if self._stream is not None:
            self._stream.close()

    def read(self, partition: Partition, offset: Offset | None) -> Reading:
        try:
            with closing(connected(self.config)) as connection:
                tables = Tables(self.config, Catalog(connection))
                slot.ensure_publication(connection, self.config, self._tables(connection))
                if offset is not None and _is_streaming(offset):
                    slot.check_slot(connection, self.config, _lsn(offset))
                elif self.config.snapshot_mode == "initial":
                    slot.drop_slot(connection, self.config)
                    offset = yield from self._snapshot(partition)
                else:
                    offset = yield from self._from_now(connection, partition)
                yield from self._changes(tables, partition, offset)
        except psycopg.OperationalError as broken:
            raise RetriableError(f"the connection to PostgreSQL broke: {broken}") from broken

    def _from_now(
        self, connection: psycopg.Connection, partition: Partition
    ) -> Generator[Record | SourcePlace | None, None, Offset]:
        """Without a snapshot: from the slot's position, or from a new slot on."""
        lsn = slot.confirmed_lsn(connection, self.config)
        if lsn is None:
            with closing(connected(self.config, replication=True)) as replication:
                lsn = slot.create_slot(replication, self.config).lsn
        offset = {"lsn": lsn}
        yield SourcePlace(partition, offset)
        return offset

    def _tables(self, connection: psycopg.Connection) -> list[TableName]:
        found = Catalog(connection).tables(roots=self.config.publish_via_partition_root)
        return [table for table in found if self.config.covers_table(table.schema, table.table)]

    # --- the snapshot

    def _snapshot(self, partition: Partition) -> Generator[Record | SourcePlace | None, None, Offset]:
        """All rows as of the moment at which the slot was created. Changes after it follow from the slot."""
        with (
            closing(connected(self.config, replication=True)) as replication,
            closing(connected(self.config)) as connection,
        ):
            new = slot.create_slot(replication, self.config)
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(new.snapshot)))
            tables = Tables(self.config, Catalog(connection))
            begun, done = {"lsn": new.lsn, "snapshot": "INITIAL"}, {"lsn": new.lsn}
            waiting: Record | None = None
            for name in self._tables(connection):
                for record in self._rows(connection, tables, name, partition, begun):
                    if waiting is not None:
                        yield waiting
                    waiting = record
        # Only the last row completes the snapshot. The transaction has ended: it would block changes of tables.
        if waiting is not None:
            waiting.place = SourcePlace(partition, done)
            waiting.value["source"]["snapshot"] = "last"  # type: ignore[index]
            yield waiting
        else:
            yield SourcePlace(partition, done)
        return done

    def _rows(
        self, connection: psycopg.Connection, tables: Tables, name: TableName, partition: Partition, offset: Offset
    ) -> Iterator[Record]:
        table, columns = tables.read_from_catalog(name)
        if not columns:
            return
        selected = sql.SQL(", ").join(map(sql.Identifier, columns))
        query = sql.SQL("DECLARE odradek CURSOR FOR SELECT {} FROM {}")
        connection.execute(query.format(selected, sql.Identifier(name.schema, name.table)))
        fetch = sql.SQL("FETCH {} FROM odradek").format(sql.Literal(self.config.snapshot_fetch_size))
        while (result := connection.execute(fetch).pgresult) is not None and result.ntuples:
            at_us = time.time_ns() // 1_000
            for row in range(result.ntuples):
                values = [result.get_value(row, column) for column in range(len(columns))]
                source = self._source(table, at_us, "true") | {"lsn": offset["lsn"]}
                change = Change(table=table.shape, operation="r", before=None, after=table.row(values), source=source)  # type: ignore[arg-type]
                yield from self._events.records(change, partition, offset, offset)
        connection.execute("CLOSE odradek")

    # --- changes

    def _changes(self, tables: Tables, partition: Partition, offset: Offset) -> Reading:
        self._stream = stream = WalStream(self.config, _lsn(offset))
        try:
            transactions = _Transactions(self, tables, partition, offset)
            moved_s = asked_s = time.monotonic()
            is_quiet = False
            while True:
                found = stream.next(WAIT_S if is_quiet else 0.0)
                if found is None:
                    is_quiet = True
                    yield None
                elif isinstance(found, WalData):
                    is_quiet = False
                    yield from transactions.records(found)
                    moved_s = time.monotonic() if not transactions.is_open else moved_s
                now = time.monotonic()
                if transactions.is_open or now - moved_s < IDLE_S:
                    continue
                if isinstance(found, Keepalive) and found.end > transactions.end:
                    transactions.end, moved_s = found.end, now
                    yield SourcePlace(partition, {"lsn": found.end})
                elif found is None and now - asked_s > IDLE_S:
                    asked_s = now
                    stream.ask()
        finally:
            stream.close()
            self._stream = None

    def _source(self, table: CapturedTable, at_us: int, snapshot: str) -> dict[str, Any]:
        return {
            "version": __version__,
            "connector": "postgresql",
            "name": self.config.topic_prefix,
            "ts_ms": at_us // 1_000,
            "snapshot": snapshot,
            "db": self.config.database_dbname,
            "sequence": None,
            "ts_us": at_us,
            "ts_ns": at_us * 1_000,
            "schema": table.schema,
            "table": table.table,
            "txId": None,
            "lsn": None,
            "xmin": None,
        }


class _Transactions:
    """The records of committed transactions, each with the offset after it."""

    def __init__(self, connector: PostgresCdc, tables: Tables, partition: Partition, offset: Offset) -> None:
        self._connector = connector
        self._tables = tables
        self._partition = partition
        self._skipped = frozenset(connector.config.skipped_operations)
        self._written = offset if "txId" in offset else None
        self._begin: Begin | None = None
        # The last record of the transaction so far: it gets the offset of the commit if no other one follows.
        self._waiting: Record | None = None
        self._at: tuple[int, int] = (0, 0)
        self.end = _lsn(offset)
        self._offset: Offset = {"lsn": self.end}

    @property
    def is_open(self) -> bool:
        return self._begin is not None

    def records(self, found: WalData) -> Iterator[Record | SourcePlace]:
        message = decoded(found.data)
        match message:
            case Begin():
                self._begin, self._at = message, (0, 0)
                self._offset = {"lsn": self.end}
            case Commit():
                yield from self._committed(message)
            case Relation():
                self._tables.learn(message)
            case RowChange() | Truncate():
                for record in self._after_written(message, found.lsn):
                    if self._waiting is not None:
                        yield self._waiting
                    self._waiting = record
            case LogicalMessage() | None:
                pass

    def _committed(self, message: Commit) -> Iterator[Record | SourcePlace]:
        # The end may not go back: a transaction that is read again ended before.
        self.end = max(self.end, message.end_lsn)
        done = {"lsn": self.end}
        if self._waiting is not None:
            yield replace(self._waiting, place=SourcePlace(self._partition, done))
        elif self._written is not None:
            yield SourcePlace(self._partition, done)  # all of it was written, but not its end
        self._waiting = self._begin = self._written = None

    def _after_written(self, message: RowChange | Truncate, lsn: int) -> Iterator[Record]:
        """Skips the changes that were written before a restart. Several rows may have the same place in the log."""
        begin = self._begin
        if begin is None:
            raise ValueError("pgoutput sent a change outside of a transaction")
        self._at = (lsn, self._at[1] + 1 if self._at[0] == lsn else 1)
        written = self._written
        after = {"lsn": self.end, "txId": begin.xid, "event_lsn": lsn, "event": self._at[1]}
        is_same = written is not None and written["txId"] == begin.xid
        if written is not None and is_same and self._at <= (int(str(written["event_lsn"])), int(str(written["event"]))):
            self._offset = after
            return
        for change in self._changed(message, begin, lsn):
            yield from self._connector._events.records(change, self._partition, self._offset, after)  # noqa: SLF001
        self._offset = after

    def _changed(self, message: RowChange | Truncate, begin: Begin, lsn: int) -> Iterator[Change]:
        if isinstance(message, Truncate):
            for oid in message.relations:
                table = self._tables.of(oid)
                if table is not None and "t" not in self._skipped:
                    source = self._source(table, begin, lsn)
                    yield Change(table=table.shape, operation="t", before=None, after=None, source=source)
            return
        table = self._tables.of(message.relation)
        if table is None or message.operation in self._skipped:
            return
        old, new = message.old, message.new
        before = None
        if old is not None:
            before = table.row(old) if message.is_old_full else table.identity(old)
        yield Change(
            table=table.shape,
            operation=message.operation,  # type: ignore[arg-type]  # c, u or d
            before=before,
            after=None if new is None else table.row(new, old if message.is_old_full else None),
            source=self._source(table, begin, lsn),
        )

    def _source(self, table: CapturedTable, begin: Begin, lsn: int) -> dict[str, Any]:
        source = self._connector._source(table, begin.committed_us, "false")  # noqa: SLF001
        sequence = json.dumps([str(self.end), str(lsn)], separators=(",", ":"))
        return source | {"sequence": sequence, "txId": begin.xid, "lsn": lsn}


def _is_streaming(offset: Offset | None) -> bool:
    return offset is not None and "lsn" in offset and "snapshot" not in offset


def _lsn(offset: Offset | None) -> int:
    return int(str(offset["lsn"])) if offset is not None else 0
