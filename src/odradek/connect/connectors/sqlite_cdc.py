"""`sqlite-cdc`: every change of a SQLite database as Debezium's change events, after a snapshot of its rows."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from odradek import __version__
from odradek.connect import records
from odradek.connect.connectors.debezium import Change, ChangeEvents, TableShape, source_schema
from odradek.connect.connectors.sqlite_changes import ChangeLog, Column, LoggedChange, columns_of, quoted
from odradek.connect.interface import RetriableError, Source
from odradek.connect.options import not_empty, option
from odradek.connect.records import INT64, STRING, Field, Offset, Partition, Record, Schema

ROWS_MAX = 2_000
LOCK_S = 5.0
WAIT_S = 0.02
QUIET_S = 1.0

SOURCE = source_schema("sqlite", table=STRING, seq=INT64.or_null())


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteCdcConfig:
    database_path: str = option("The database file.", importance="HIGH", check=not_empty)
    topic_prefix: str = option("Topics are PREFIX.main.TABLE.", importance="HIGH", check=not_empty)
    table_include_list: list[str] = option("Regular expressions of tables; the default is all.", default=[])
    snapshot_mode: Literal["initial", "no_data"] = option(
        "initial: first the rows that exist. no_data: only changes from now on.", default="initial"
    )
    tombstones_on_delete: bool = option("Write a tombstone after each delete.", default=True)
    change_table: str = option("The table that triggers write changes to.", default="_odradek_changes")


class SqliteCdc(Source[SqliteCdcConfig]):
    """One partition. The offset is the number of the last change; during the snapshot it says so.

    A snapshot that was interrupted begins again. Changes are deleted from the log when they are durable in topics.
    """

    Config: ClassVar[type] = SqliteCdcConfig

    def __init__(self, config: SqliteCdcConfig) -> None:
        super().__init__(config)
        self._shapes: dict[tuple[str, tuple[Column, ...]], TableShape] = {}
        self._events = ChangeEvents(tombstones=config.tombstones_on_delete)

    def partitions(self) -> Sequence[Partition]:
        if not Path(self.config.database_path).is_file():
            raise RetriableError(f"there is no database {self.config.database_path}")
        return [{"server": self.config.topic_prefix}]

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:  # noqa: ARG002
        if not _is_streaming(offset):
            return True
        with closing(self._opened()) as database:
            log = ChangeLog(database, self.config.change_table)
            return log.last() > _seq(offset) or not all(map(log.is_current, self._tables(database)))

    def read(self, partition: Partition, offset: Offset | None) -> Iterator[Record | None]:
        with closing(self._opened()) as database:
            log = ChangeLog(database, self.config.change_table)
            log.install(self._tables(database))
            if not _is_streaming(offset):
                offset = yield from self._snapshot(database, log, partition)
            quiet_since = time.monotonic()
            while True:
                changes = log.after(_seq(offset), ROWS_MAX)
                for change in changes:
                    after = {"seq": change.seq}
                    yield from self._events.records(self._change(change), partition, after)
                    offset = after
                if changes:
                    quiet_since = time.monotonic()
                elif time.monotonic() - quiet_since > QUIET_S:
                    return  # the next read looks at the tables and columns again
                else:
                    time.sleep(WAIT_S)
                    yield None

    def _snapshot(
        self, database: sqlite3.Connection, log: ChangeLog, partition: Partition
    ) -> Generator[Record | None, None, Offset]:
        """All rows as of one moment, in one transaction that also reads the number of the last change.

        Returns the offset after which changes follow.
        """
        database.execute("BEGIN")
        try:
            begun: Offset = {"snapshot": True}
            seq = log.last()
            at_ms = time.time_ns() // 1_000_000
            tables = self._tables(database) if self.config.snapshot_mode == "initial" else []
            waiting: Record | None = None
            for table in tables:
                for record in self._rows(database, table, at_ms, seq, partition, begun):
                    if waiting is not None:
                        yield waiting
                    waiting = record
            done: Offset = {"seq": seq}
            if waiting is not None:  # only the last row completes the snapshot
                waiting.place = records.SourcePlace(partition, done)
                waiting.value["source"]["snapshot"] = "last"  # type: ignore[index]
                yield waiting
            return done
        finally:
            database.rollback()

    def _rows(
        self, database: sqlite3.Connection, table: str, at_ms: int, seq: int, partition: Partition, offset: Offset
    ) -> Iterator[Record]:
        columns = columns_of(database, table)
        shape = self._shape(table, columns)
        for row in database.execute(f"SELECT * FROM {quoted(table)}"):  # noqa: S608 (the name is quoted)
            source = self._source(table, at_ms, None, snapshot="true") | {"seq": seq}
            change = Change(table=shape, operation="r", before=None, after=_row(columns, row), source=source)
            yield from self._events.records(change, partition, offset)

    def _change(self, change: LoggedChange) -> Change:
        return Change(
            table=self._shape(change.table, change.columns),
            operation=change.operation,  # type: ignore[arg-type]  # written by our triggers
            before=None if change.before is None else _row(change.columns, change.before),
            after=None if change.after is None else _row(change.columns, change.after),
            source=self._source(change.table, change.at_ms, change.seq, snapshot="false"),
        )

    def _source(self, table: str, at_ms: int, seq: int | None, *, snapshot: str) -> dict[str, Any]:
        return {
            "version": __version__,
            "connector": "sqlite",
            "name": self.config.topic_prefix,
            "ts_ms": at_ms,
            "snapshot": snapshot,
            "db": Path(self.config.database_path).name,
            "sequence": None if seq is None else f'["{seq}"]',
            "ts_us": at_ms * 1_000,
            "ts_ns": at_ms * 1_000_000,
            "table": table,
            "seq": seq,
        }

    def _shape(self, table: str, columns: tuple[Column, ...]) -> TableShape:
        if (table, columns) not in self._shapes:
            self._shapes[table, columns] = self._new_shape(table, columns)
        return self._shapes[table, columns]

    def _new_shape(self, table: str, columns: tuple[Column, ...]) -> TableShape:
        keys = sorted((column for column in columns if column.key), key=lambda column: column.key)
        return TableShape(
            topic=f"{self.config.topic_prefix}.main.{table}",
            columns=tuple(Field(column.name, _schema(column)) for column in columns),
            key=tuple(column.name for column in keys),
            source=SOURCE,
        )

    def _tables(self, database: sqlite3.Connection) -> list[str]:
        own = self.config.change_table
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        names = [name for (name,) in rows if not name.startswith("sqlite_") and name not in (own, f"{own}_columns")]
        wanted = self.config.table_include_list
        return [name for name in names if not wanted or any(re.fullmatch(each, name) for each in wanted)]

    def committed(self, partition: Partition, offset: Offset) -> None:  # noqa: ARG002
        if _is_streaming(offset):
            with closing(self._opened()) as database:
                ChangeLog(database, self.config.change_table).prune(_seq(offset))

    def _opened(self) -> sqlite3.Connection:
        try:
            # `mode=rw`: a misspelt path must not become a new database.
            uri = f"{Path(self.config.database_path).absolute().as_uri()}?mode=rw"
            return sqlite3.connect(uri, uri=True, timeout=LOCK_S, isolation_level=None)
        except sqlite3.OperationalError as failed:
            raise RetriableError(f"opening {self.config.database_path}: {failed}") from failed


def _is_streaming(offset: Offset | None) -> bool:
    return bool(offset) and "seq" in (offset or {})


def _seq(offset: Offset | None) -> int:
    return int(str((offset or {})["seq"]))


def _schema(column: Column) -> Schema:
    """SQLite's rules for the affinity of a declared type. Booleans are what everybody declares them as."""
    kind = column.kind
    if "BOOL" in kind:
        plain = records.BOOLEAN
    elif "INT" in kind:
        plain = INT64
    elif any(part in kind for part in ("CHAR", "CLOB", "TEXT")):
        plain = STRING
    elif "BLOB" in kind or not kind:
        plain = records.BYTES
    elif any(part in kind for part in ("REAL", "FLOA", "DOUB", "NUM", "DEC")):
        plain = records.FLOAT64
    else:
        plain = STRING  # dates and times, which SQLite stores as text
    return plain.or_null() if column.is_nullable else plain


def _row(columns: Sequence[Column], values: Sequence[object]) -> dict[str, object]:
    return {column.name: _fitting(column, value) for column, value in zip(columns, values, strict=False)}


def _fitting(column: Column, value: object) -> object:
    """SQLite stores any value in any column. One that has another type than declared becomes the declared type."""
    if value is None:
        return None
    match _schema(column).kind:
        case records.Kind.BOOLEAN:
            return bool(value)
        case records.Kind.FLOAT64 if isinstance(value, int):
            return float(value)
        case records.Kind.STRING if not isinstance(value, str):
            return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        case records.Kind.BYTES if not isinstance(value, bytes):
            return str(value).encode()
        case records.Kind.INT64 if not isinstance(value, int):
            raise ValueError(f"the column {column.name} is declared {column.kind}, but a row has the value {value!r}")
        case _:
            return value
