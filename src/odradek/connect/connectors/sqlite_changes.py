"""The change log of a SQLite database: triggers write every change of captured tables into a table.

Triggers see the writes of every process, with the row before and after, in commit order. Values are stored as SQL
literals (`quote`), which keep SQLite's types; JSON cannot hold blobs.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

LITERAL = re.compile(r"NULL|X'([0-9A-Fa-f]*)'|'((?:[^']|'')*)'|([-+]?[0-9][0-9.eE+-]*|[-+]?Inf)", re.DOTALL)
EVENTS = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}
NOW_MS = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: str  # as declared, in capitals
    is_nullable: bool
    key: int  # its place in the primary key, from 1; 0: not part of it


@dataclass(frozen=True, slots=True)
class LoggedChange:
    seq: int
    table: str
    operation: str
    columns: tuple[Column, ...]
    before: tuple[object, ...] | None
    after: tuple[object, ...] | None
    at_ms: int


class ChangeLog:
    """The table `name` in a database, with one more table for the columns that each change was written with."""

    def __init__(self, database: sqlite3.Connection, name: str) -> None:
        self._database = database
        self._name = name
        self._shapes: dict[int, tuple[Column, ...]] = {}

    def install(self, tables: Sequence[str]) -> None:
        """Creates what is missing. Triggers of a table whose columns have changed are replaced."""
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.execute(
                f"CREATE TABLE IF NOT EXISTS {quoted(self._name)} (seq INTEGER PRIMARY KEY AUTOINCREMENT, "
                "shape INTEGER NOT NULL, op TEXT NOT NULL, before TEXT, after TEXT, at_ms INTEGER NOT NULL)"
            )
            self._database.execute(
                f"CREATE TABLE IF NOT EXISTS {quoted(self._shape_table)} "
                "(id INTEGER PRIMARY KEY, tbl TEXT NOT NULL, columns TEXT NOT NULL)"
            )
            for table in tables:
                self._install(table)

    @property
    def _shape_table(self) -> str:
        return f"{self._name}_columns"

    def is_current(self, table: str) -> bool:
        """Whether the triggers of a table exist and write all of its columns."""
        shape = self._newest_shape(table)
        return shape is not None and shape[1] == columns_of(self._database, table)

    def _newest_shape(self, table: str) -> tuple[int, tuple[Column, ...]] | None:
        query = f"SELECT id, columns FROM {quoted(self._shape_table)} WHERE tbl = ? ORDER BY id DESC LIMIT 1"  # noqa: S608
        found = self._database.execute(query, [table]).fetchone()
        return None if found is None else (found[0], _columns(found[1]))

    def _install(self, table: str) -> None:
        if self.is_current(table):
            return
        columns = columns_of(self._database, table)
        told = json.dumps([[c.name, c.kind, c.is_nullable, c.key] for c in columns])
        insert = f"INSERT INTO {quoted(self._shape_table)} (tbl, columns) VALUES (?, ?)"  # noqa: S608
        shape = self._database.execute(insert, [table, told]).lastrowid
        for operation, event in EVENTS.items():
            trigger = quoted(f"{self._name}_{operation}_{table}")
            before = _literals("OLD", columns) if operation != "c" else "NULL"
            after = _literals("NEW", columns) if operation != "d" else "NULL"
            self._database.execute(f"DROP TRIGGER IF EXISTS {trigger}")
            self._database.execute(
                f"CREATE TRIGGER {trigger} AFTER {event} ON {quoted(table)} BEGIN "  # noqa: S608 (names are quoted)
                f"INSERT INTO {quoted(self._name)} (shape, op, before, after, at_ms) "
                f"VALUES ({shape}, '{operation}', {before}, {after}, {NOW_MS}); END"
            )

    def last(self) -> int:
        """The number of the newest change ever written, also if it was pruned."""
        found = self._database.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [self._name]).fetchone()
        return 0 if found is None else int(found[0])

    def after(self, seq: int, limit: int) -> list[LoggedChange]:
        rows = self._database.execute(
            f"SELECT seq, shape, op, before, after, at_ms, tbl FROM {quoted(self._name)} AS log "  # noqa: S608
            f"JOIN {quoted(self._shape_table)} AS shapes ON shapes.id = log.shape WHERE seq > ? ORDER BY seq LIMIT ?",
            [seq, limit],
        ).fetchall()
        return [
            LoggedChange(seq, table, op, self._shape(shape), _values(before), _values(after), at_ms)
            for seq, shape, op, before, after, at_ms, table in rows
        ]

    def _shape(self, shape: int) -> tuple[Column, ...]:
        if shape not in self._shapes:
            query = f"SELECT columns FROM {quoted(self._shape_table)} WHERE id = ?"  # noqa: S608
            self._shapes[shape] = _columns(self._database.execute(query, [shape]).fetchone()[0])
        return self._shapes[shape]

    def prune(self, seq: int) -> None:
        """Deletes the changes up to `seq`, which are durable elsewhere."""
        with self._database:
            self._database.execute(f"DELETE FROM {quoted(self._name)} WHERE seq <= ?", [seq])  # noqa: S608


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def columns_of(database: sqlite3.Connection, table: str) -> tuple[Column, ...]:
    rows = database.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
    return tuple(Column(name, kind.upper(), not notnull and not key, key) for _, name, kind, notnull, _, key in rows)


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(*parts) for parts in json.loads(text))


def _literals(row: str, columns: Sequence[Column]) -> str:
    return " || ',' || ".join(f"quote({row}.{quoted(column.name)})" for column in columns)


def _values(text: str | None) -> tuple[object, ...] | None:
    return None if text is None else tuple(map(_value, LITERAL.finditer(text)))


def _value(found: re.Match[str]) -> object:
    blob, text, number = found.groups()
    if blob is not None:
        return bytes.fromhex(blob)
    if text is not None:
        return text.replace("''", "'")
    if number is None:
        return None
    return int(number) if re.fullmatch(r"[-+]?\d+", number) else float(number)
