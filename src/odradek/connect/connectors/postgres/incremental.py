"""The incremental snapshot: rows that exist are read again in chunks, while changes are captured.

The connector reads a chunk, and then writes a row to the signal table. The keys of all changes that it meets in the log
before this row are removed from the chunk, because their events are in the topic already. The other rows of the chunk
follow at the row. Nothing is locked, and a restart continues after the last row that was written.

A transaction can be in the log before a query sees it: PostgreSQL writes the commit first, waits for standby servers if
it must, and shows the changes last. If the topic has the events of such a transaction already, a chunk that misses it
would bring its old rows back. So a chunk is read when the database shows all transactions that were met in the log.
Those that were met before a restart are not known.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from odradek.connect.connectors.postgres.catalog import Catalog, TableName
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.pgoutput import Fields
from odradek.connect.connectors.postgres.signals import (
    CHUNK_END,
    ChunkEnd,
    ExecuteSnapshot,
    PauseSnapshot,
    ResumeSnapshot,
    Signal,
    StopSnapshot,
)
from odradek.connect.connectors.postgres.snapshot import Bound, Chunk, first_key
from odradek.connect.connectors.postgres.tables import CapturedTable, Tables
from odradek.connect.connectors.postgres.visibility import Visibility
from odradek.connect.records import Offset

_log = logging.getLogger("odradek.connect.postgres")

STATE = "incremental_snapshot"
# A connection waits until its commit is visible, so no more transactions than connections are in the log before that.
REMEMBERED_TRANSACTIONS = 10_000


@dataclass(frozen=True, slots=True)
class ChunkRow:
    fields: Fields
    key: tuple[str, ...]  # as text: a restart continues after it


@dataclass(slots=True)
class _Chunk:
    """`rows` by the key that events of the same table have."""

    oid: int
    table: CapturedTable
    rows: dict[str, ChunkRow]
    last: tuple[str, ...]
    end_id: str


class IncrementalSnapshot:
    """The tables that wait, the first of which is being read: after which key, and up to which one."""

    def __init__(self, config: PostgresCdcConfig, tables: Tables, offset: Offset) -> None:
        self._config = config
        self._tables = tables
        self._waiting: list[dict[str, Any]] = []
        self._after: Bound = None
        self._upto: Bound = None
        self._is_paused = False
        self._chunk: _Chunk | None = None
        self._read_upto: Bound = None
        self._met: deque[int] = deque(maxlen=REMEMBERED_TRANSACTIONS)
        self._restore(offset.get(STATE))

    def _restore(self, state: object) -> None:
        if isinstance(state, Mapping):
            self._waiting = [dict(each) for each in state["tables"]]
            self._after = None if state["after"] is None else tuple(state["after"])
            self._upto = None if state["upto"] is None else tuple(state["upto"])
            self._is_paused = bool(state["paused"])

    def state(self, after: Bound = None) -> dict[str, object]:
        """More fields of an offset; none if nothing is to be read. `after`: the key of the row that has the offset."""
        if not self._waiting:
            return {}
        return {
            STATE: {
                # A copy: an offset may not change after its record was made.
                "tables": [dict(each) for each in self._waiting],
                "after": after or self._after,
                "upto": self._upto,
                "paused": self._is_paused,
            }
        }

    # --- what the log says

    def take(self, signal: Signal) -> None:
        """A signal whose transaction was committed."""
        match signal:
            case ExecuteSnapshot():
                # Until the tables are looked up, the state keeps what was asked for.
                self._waiting.append({"patterns": signal.data_collections, "conditions": _conditions(signal)})
            case StopSnapshot():
                self._stop(signal)
            case PauseSnapshot():
                self._is_paused, self._chunk = True, None
            case ResumeSnapshot():
                self._is_paused = False
            case _:
                pass

    def _stop(self, signal: StopSnapshot) -> None:
        first = self._waiting[0] if self._waiting else None
        self._waiting = [each for each in self._waiting if not signal.covers(_name(each))]
        if first is not None and (not self._waiting or self._waiting[0] is not first):
            self._chunk = self._after = self._upto = None

    @property
    def has_chunk(self) -> bool:
        return self._chunk is not None

    def changed(self, oid: int, row: Fields | None) -> None:
        """A change in the log: it counts, not the row of the chunk with the same key."""
        chunk = self._chunk
        if row is not None and chunk is not None and chunk.oid == oid:
            chunk.rows.pop(_key(chunk.table, row), None)

    def truncated(self, oid: int) -> None:
        if self._chunk is not None and self._chunk.oid == oid:
            self._chunk.rows.clear()

    def committed(self, xid: int) -> None:
        self._met.append(xid)

    def ended(self, signal: Signal) -> tuple[CapturedTable, list[ChunkRow]] | None:
        """The rows of a chunk whose end was met in the log. `passed` follows when records were made of them."""
        chunk = self._chunk
        if chunk is None or not isinstance(signal, ChunkEnd) or signal.id != chunk.end_id:
            return None
        self._chunk, self._read_upto = None, chunk.last
        return chunk.table, list(chunk.rows.values())

    def passed(self) -> None:
        self._after = self._read_upto

    # --- the next chunk

    def step(self, connection: psycopg.Connection) -> None:
        """Reads the next chunk if there is one, and the last one is done. It may have to wait for the next step."""
        while self._waiting and self._chunk is None and not self._is_paused:
            if "patterns" in self._waiting[0]:
                self._look_up(connection, self._waiting.pop(0))
                continue
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                # The end of a chunk is no data of the user: it need not reach a standby server.
                connection.execute("SET LOCAL synchronous_commit = local")
                if Visibility.of(connection).misses(self._met):
                    return
                has_rows = self._read(connection, self._waiting[0])
            if not has_rows:
                _log.info("the incremental snapshot of %s has ended", _name(self._waiting[0]))
                self._waiting.pop(0)
                self._after = self._upto = None

    def _look_up(self, connection: psycopg.Connection, asked: Mapping[str, Any]) -> None:
        signal = ExecuteSnapshot(asked["patterns"])
        catalog = Catalog(connection)
        found = []
        for name in catalog.tables(roots=self._config.publish_via_partition_root):
            full = f"{name.schema}.{name.table}"
            if not signal.covers(full) or not self._config.covers_table(name.schema, name.table):
                continue
            if not catalog.primary_key(name.oid):
                _log.warning("%s has no primary key: no incremental snapshot of it is possible", full)
                continue
            conditions = [text for pattern, text in asked["conditions"] if ExecuteSnapshot([pattern]).covers(full)]
            found.append({"schema": name.schema, "table": name.table, "where": next(iter(conditions), None)})
        _log.info("an incremental snapshot of %s begins", ", ".join(map(_name, found)) or "no table")
        self._waiting[:0] = found

    def _read(self, connection: psycopg.Connection, wanted: Mapping[str, Any]) -> bool:
        """False if the table has no more rows, or is gone."""
        catalog = Catalog(connection)
        oid = catalog.oid(wanted["schema"], wanted["table"])
        key = catalog.primary_key(oid) if oid is not None else ()
        if oid is None or not key:
            return False
        name = TableName(oid, wanted["schema"], wanted["table"])
        if self._upto is None:
            whole = Chunk(name, key, where=wanted["where"])
            self._upto = first_key(connection, whole.query(key) + whole.order(1, descending=True))
        if self._upto is None or self._after == self._upto:
            return False
        table, columns = self._tables.read_from_catalog(name)
        if set(table.shape.key) != set(key):
            _log.warning("%s: its primary key is not captured: no incremental snapshot is possible", _name(wanted))
            return False
        rows = self._rows(connection, table, columns, Chunk(name, key, self._after, self._upto, wanted["where"]))
        if not rows:
            return False
        end_id = f"{uuid.uuid4()}-end"
        self._mark(connection, end_id)
        self._chunk = _Chunk(oid, table, rows, next(reversed(rows.values())).key, end_id)
        return True

    def _rows(
        self, connection: psycopg.Connection, table: CapturedTable, columns: Sequence[str], chunk: Chunk
    ) -> dict[str, ChunkRow]:
        query = chunk.query([*columns, *chunk.key]) + chunk.order(self._config.incremental_snapshot_chunk_size)
        result = connection.execute(query).pgresult
        rows = {}
        for row in range(result.ntuples if result is not None else 0):
            values = [result.get_value(row, column) for column in range(result.nfields)]  # type: ignore[union-attr]
            fields = table.fields(values[: len(columns)])
            key = tuple((each or b"").decode() for each in values[len(columns) :])
            rows[_key(table, fields)] = ChunkRow(fields, key)
        return rows

    def _mark(self, connection: psycopg.Connection, id_: str) -> None:
        schema, _, name = (self._config.signal_data_collection or "").partition(".")
        table = sql.Identifier(schema, name)
        connection.execute(sql.SQL("INSERT INTO {} VALUES (%s, %s, NULL)").format(table), [id_, CHUNK_END])


def _conditions(signal: ExecuteSnapshot) -> list[tuple[str, str]]:
    """The filters are SQL: a user who may insert signals is trusted with it."""
    return [(each.data_collection, each.filter) for each in signal.additional_conditions]


def _name(waiting: Mapping[str, Any]) -> str:
    return ",".join(waiting["patterns"]) if "patterns" in waiting else f"{waiting['schema']}.{waiting['table']}"


def _key(table: CapturedTable, row: Fields) -> str:
    return repr([row[name] for name in table.shape.key])
