"""`mysql-cdc`: every change of a MariaDB or MySQL database as Debezium's change events, after a snapshot."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, ClassVar

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import (
    GtidEvent,
    HeartbeatLogEvent,
    MariadbGtidEvent,
    QueryEvent,
    RotateEvent,
    XidEvent,
)
from pymysqlreplication.row_event import DeleteRowsEvent, TableMapEvent, UpdateRowsEvent, WriteRowsEvent

from odradek import __version__
from odradek.connect.connectors.debezium import Change, ChangeEvents, Operation, Row
from odradek.connect.connectors.heartbeats import Heartbeats
from odradek.connect.connectors.mysql import server
from odradek.connect.connectors.mysql.config import MysqlCdcConfig
from odradek.connect.connectors.mysql.server import Position
from odradek.connect.connectors.mysql.tables import CapturedTable, Tables
from odradek.connect.interface import Source
from odradek.connect.records import Offset, Partition, Record, SourcePlace

_log = logging.getLogger("odradek.connect.mysql")

HEARTBEAT_S = 0.1
# An idle position is stored after this time, so that the server may delete files that the connector has read.
IDLE_S = 1.0
# The statement of the heartbeats runs between two events: it may hold up capture, and the task's stop, for this time.
LOCK_WAIT_S = 3
STATEMENT_S = 5
EVENTS = [
    GtidEvent,
    HeartbeatLogEvent,
    MariadbGtidEvent,
    QueryEvent,
    RotateEvent,
    XidEvent,
    TableMapEvent,
    WriteRowsEvent,
    UpdateRowsEvent,
    DeleteRowsEvent,
]
# A MariaDB transaction of one statement without COMMIT: a change of a table.
STANDALONE = 1

Reading = Iterator[Record | list[Record] | SourcePlace | None]


class MysqlCdc(Source[MysqlCdcConfig]):
    """One partition. `file` and `pos` are the end of the last transaction that is complete in the topics.

    Inside a transaction the offset also has `event` and `row`: the number of changed rows that are in the topics. A
    restart reads the transaction again and skips them. A snapshot that was interrupted begins again.
    """

    Config: ClassVar[type] = MysqlCdcConfig

    def __init__(self, config: MysqlCdcConfig) -> None:
        super().__init__(config)
        self._events = ChangeEvents(tombstones=config.tombstones_on_delete)
        self._looking: pymysql.Connection[Any] | None = None

    def partitions(self) -> Sequence[Partition]:
        return [{"server": self.config.topic_prefix}]

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:  # noqa: ARG002
        """Whether the binlog is longer: only reading it tells whether the changes are of our tables."""
        if not _is_streaming(offset) or self.stays():
            return True
        with server.explained():
            if self._looking is None or not self._looking.open:
                self._looking = pymysql.connect(**server.settings(self.config))
            self._looking.ping()
            return server.position(self._looking) != _position(offset)

    def stays(self) -> bool:
        return self.config.heartbeat_interval_ms > 0

    def close(self) -> None:
        if self._looking is not None:
            self._looking.close()

    def read(self, partition: Partition, offset: Offset | None) -> Reading:
        with server.connected(self.config) as connection:
            server.check(connection)
            tables = Tables(self.config, "mariadb" if server.is_mariadb(connection) else "mysql")
            if offset is not None and _is_streaming(offset):
                self._check_file(connection, str(offset["file"]))
            elif self.config.snapshot_mode == "initial":
                offset = yield from self._snapshot(connection, tables, partition)
            else:
                offset = _offset(server.position(connection))
                yield SourcePlace(partition, offset)
            flavor = "mariadb" if server.is_mariadb(connection) else "mysql"
        yield from self._changes(tables, flavor, partition, offset)

    def _check_file(self, connection: pymysql.Connection[Any], file: str) -> None:
        if not server.has_file(connection, file):
            raise ValueError(
                f"the server no longer has the binlog file {file}: changes are lost. Stop the connector, reset its "
                "offsets for a new snapshot, and keep binlogs longer (binlog_expire_logs_seconds)"
            )

    # --- the snapshot

    def _snapshot(
        self, catalog: pymysql.Connection[Any], tables: Tables, partition: Partition
    ) -> Generator[Record | list[Record] | SourcePlace | None, None, Offset]:
        """All rows as of one position in the binlog. Changes after it follow from there."""
        flavor = "mariadb" if server.is_mariadb(catalog) else "mysql"
        with server.connected(self.config, streaming=True) as connection:
            at = server.begin_snapshot(connection)
            begun, done = {**_offset(at), "snapshot": "INITIAL"}, _offset(at)
            waiting: list[Record] = []
            for database, name in tables.in_catalog(catalog):
                table = tables.from_catalog(catalog, database, name)
                for rows in self._rows(connection, table):
                    at_ms = time.time_ns() // 1_000_000
                    found: list[Record] = []
                    for row in rows:
                        source = self._source(flavor, table, at_ms, "true", at, 0, None)
                        change = Change(table=table.shape, operation="r", before=None, after=row, source=source)
                        found += self._events.records(change, partition, begun)
                    if waiting:
                        yield waiting
                    waiting = found
        # Only the last row completes the snapshot.
        if waiting:
            waiting[-1].place = SourcePlace(partition, done)
            waiting[-1].value["source"]["snapshot"] = "last"  # type: ignore[index]
            yield waiting
        else:
            yield SourcePlace(partition, done)
        return done

    def _rows(self, connection: pymysql.Connection[Any], table: CapturedTable) -> Iterator[list[Row]]:
        if not table.columns:
            return
        names = [column.name for column in table.columns]
        selected = ", ".join(map(_quoted, names))
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {selected} FROM {_quoted(table.database)}.{_quoted(table.table)}")  # noqa: S608
            while rows := cursor.fetchmany(self.config.snapshot_fetch_size):
                yield [table.row(dict(zip(names, row, strict=True))) for row in rows]

    # --- changes

    def _changes(self, tables: Tables, flavor: str, partition: Partition, offset: Offset) -> Reading:
        reader = BinLogStreamReader(
            connection_settings=server.settings(self.config) | {"read_timeout": 60},
            server_id=self.config.database_server_id,
            blocking=True,
            resume_stream=True,
            log_file=str(offset["file"]),
            log_pos=int(str(offset["pos"])),
            only_events=EVENTS,
            slave_heartbeat=HEARTBEAT_S,
            enable_logging=False,
            pymysql_wrapper=_connect,
        )
        with closing(reader):
            transactions = _Transactions(self, tables, flavor, partition, offset)
            heartbeats = Heartbeats(
                self.config.heartbeat_interval_ms,
                topic=self.config.topic_heartbeat_prefix,
                server=self.config.topic_prefix,
            )
            moved_s = rested_s = time.monotonic()
            while True:
                with server.explained():
                    event = reader.fetchone()
                if event is None:
                    return
                is_idle = isinstance(event, HeartbeatLogEvent)
                if not is_idle:
                    yield from transactions.records(event, Position(str(reader.log_file), int(reader.log_pos)))
                now = time.monotonic()
                if heartbeats.is_due() and transactions.is_between:
                    self._act()
                    yield heartbeats.event(SourcePlace(partition, transactions.passed()))
                # A server that is busy with tables of others sends no events of its own.
                if is_idle or now - rested_s > HEARTBEAT_S:
                    rested_s = now
                    if transactions.is_between and transactions.has_moved and now - moved_s > IDLE_S:
                        moved_s = now
                        yield SourcePlace(partition, transactions.passed())
                    yield None

    def _act(self) -> None:
        """Executes the statement of the heartbeats. A failure of the statement stops no capture: it is logged."""
        if not self.config.heartbeat_action_query:
            return
        with server.connected(self.config, answers_within_s=STATEMENT_S) as connection, connection.cursor() as cursor:
            cursor.execute(f"SET lock_wait_timeout = {LOCK_WAIT_S}, innodb_lock_wait_timeout = {LOCK_WAIT_S}")
            try:
                cursor.execute(self.config.heartbeat_action_query)
                connection.commit()
            except pymysql.err.MySQLError as failed:
                # PyMySQL reports its own time-out as a lost connection.
                if server.is_outage(failed) and not isinstance(failed.__context__, TimeoutError):
                    raise
                _log.warning("heartbeat.action.query failed: %s", failed)

    def _source(
        self,
        flavor: str,
        table: CapturedTable,
        at_ms: int,
        snapshot: str,
        at: Position,
        server_id: int,
        gtid: str | None,
        row: int = 0,
    ) -> dict[str, Any]:
        return {
            "version": __version__,
            "connector": flavor,
            "name": self.config.topic_prefix,
            "ts_ms": at_ms,
            "snapshot": snapshot,
            "db": table.database,
            "sequence": None,
            "ts_us": at_ms * 1_000,
            "ts_ns": at_ms * 1_000_000,
            "table": table.table,
            "server_id": server_id,
            "gtid": gtid,
            "file": at.file,
            "pos": at.at,
            "row": row,
            "thread": None,
            "query": None,
        }


class _Transactions:
    """The records of committed transactions, each with the offset after it."""

    def __init__(self, connector: MysqlCdc, tables: Tables, flavor: str, partition: Partition, offset: Offset) -> None:
        self._connector = connector
        self._tables = tables
        self._flavor = flavor
        self._partition = partition
        self._skipped = frozenset(connector.config.skipped_operations)
        self._end = self._stored = _position(offset)
        # Rows of the first transaction that are in the topics already.
        self._written = int(str(offset.get("row", 0)))
        self._by_id: dict[int, CapturedTable | None] = {}
        self._gtid: str | None = None
        self._done = 0
        self.is_open = False
        # The last records of the transaction so far: they get the offset of the commit if no others follow.
        self._waiting: list[Record] = []

    @property
    def is_between(self) -> bool:
        """Whether no transaction has begun, and none is read again of which a part is in the topics."""
        return not self.is_open and not self._written

    @property
    def has_moved(self) -> bool:
        return self._end != self._stored

    def passed(self) -> Offset:
        """The offset of a place without records."""
        self._stored = self._end
        return _offset(self._end)

    def records(self, event: Any, after: Position) -> Reading:  # noqa: ANN401 (an event of the library)
        match event:
            case RotateEvent():
                if not self.is_open:
                    self._end = after
            case MariadbGtidEvent() | GtidEvent():
                self._gtid = event.gtid
                self.is_open = self._flavor != "mariadb" or not event.flags & STANDALONE
            case QueryEvent():
                yield from self._queried(event.query, after)
            case XidEvent():
                yield from self._committed(after)
            case TableMapEvent():
                self._by_id[event.table_id] = self._tables.described(event)
            case WriteRowsEvent() | UpdateRowsEvent() | DeleteRowsEvent():
                yield from self._changed(event, after)

    def _queried(self, query: str | bytes, after: Position) -> Reading:
        text = (query.decode(errors="replace") if isinstance(query, bytes) else query).strip().upper()
        if text == "BEGIN":
            self.is_open = True
        elif text in ("COMMIT", "ROLLBACK"):
            yield from self._committed(after)
        elif not text.startswith("SAVEPOINT"):
            # A change of tables. The next event of each table describes it.
            yield from self._committed(after)

    def _committed(self, after: Position) -> Reading:
        self._end, self.is_open = after, False
        if self._waiting:
            self._waiting[-1].place = SourcePlace(self._partition, self.passed())
            yield self._waiting
        elif self._written:
            yield SourcePlace(self._partition, self.passed())  # all of it was written, but not its end
        self._waiting, self._written, self._done = [], 0, 0

    def _changed(self, event: Any, at: Position) -> Reading:  # noqa: ANN401
        table = self._by_id.get(event.table_id)
        operation = _OPERATIONS[type(event)]
        if table is None or operation in self._skipped:
            return
        self.is_open = True
        found: list[Record] = []
        for row, values in enumerate(event.rows):
            self._done += 1
            if self._done <= self._written:
                continue
            change = Change(
                table=table.shape,
                operation=operation,
                before=table.row(values.get("before_values") or values["values"]) if operation != "c" else None,
                after=table.row(values.get("after_values") or values["values"]) if operation != "d" else None,
                source=self._connector._source(  # noqa: SLF001
                    self._flavor,
                    table,
                    event.timestamp * 1_000,
                    "false",
                    at,
                    int(event.packet.server_id),
                    self._gtid,
                    row,
                ),
            )
            after = {**_offset(self._end), "row": self._done}
            found += self._connector._events.records(change, self._partition, after)  # noqa: SLF001
        if found:
            if self._waiting:
                yield self._waiting
            self._waiting = found


_OPERATIONS: dict[type, Operation] = {WriteRowsEvent: "c", UpdateRowsEvent: "u", DeleteRowsEvent: "d"}


def _connect(**given: Any) -> pymysql.Connection[Any]:  # noqa: ANN401
    """For the library, which still uses the deprecated name of an argument."""
    return pymysql.connect(**({"database": given.pop("db")} if "db" in given else {}), **given)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _offset(at: Position) -> dict[str, object]:
    return {"file": at.file, "pos": at.at}


def _position(offset: Offset | None) -> Position:
    return Position("", 0) if offset is None else Position(str(offset["file"]), int(str(offset["pos"])))


def _is_streaming(offset: Offset | None) -> bool:
    return offset is not None and "file" in offset and "snapshot" not in offset
