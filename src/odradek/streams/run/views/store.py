"""A view on disk: the rows of a table and how far they have been read, in one SQLite file.

Rows and positions change in the same transaction: whatever moment a process dies at, the file is the exact result of
the changelog up to its positions. One writer per file, held by a lock; reads see the last commit and never wait for it.
"""

from __future__ import annotations

import fcntl
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import IO

from odradek.base.limits import MIB
from odradek.pipeline.errors import StreamsError

LAYOUT = 2  # of the tables below; a file of another layout is built again
PAGE_ROWS = 1000
PAGE_BYTES = 4 * MIB
BUSY_TIMEOUT_S = 10.0
NO_AGES: Mapping[bytes, int] = MappingProxyType({})

_TABLES = """
CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS source (topic TEXT NOT NULL, topic_id TEXT NOT NULL, seen_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ages (key BLOB PRIMARY KEY, written_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS oldest ON ages (written_ms);
"""
# NORMAL: a power cut may take the last commits, but always rows and positions together: they are read again.
_SETTINGS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=8000;"
_CACHE = "PRAGMA cache_size=-32768;"  # KiB


class StoreBusy(StreamsError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            f"another process keeps the view in {path}: a store has one follower.\n"
            "Stop that first (`odradek streams views`, or whoever asks the view from Python), or use another state "
            "directory (--state-dir)."
        )


class Store:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock_file = locked(path)
        try:
            self._writer = _opened(path)
            self._reader = _reading(path)
        except BaseException:
            self._lock_file.close()
            raise
        self._reading = threading.Lock()

    # --- reading, from any thread

    def get(self, key: bytes) -> bytes | None:
        with self._reading:
            row = self._reader.execute("SELECT value FROM rows WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def scan(self, prefix: bytes = b"", after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Keys in the order of their bytes, a page at a time: rows that change meanwhile may be seen either way."""
        below = _successor(prefix)
        last, operator = (prefix, ">=") if after is None or after < prefix else (after, ">")
        while True:
            bounds = (last,) if below is None else (last, below)
            condition = f"key {operator} ?" if below is None else f"key {operator} ? AND key < ?"
            query = f"SELECT key, value FROM rows WHERE {condition} ORDER BY key LIMIT {PAGE_ROWS}"  # noqa: S608
            with self._reading, closing(self._reader.execute(query, bounds)) as found:
                page = _page(found)
            if not page:
                return
            yield from page
            last, operator = page[-1][0], ">"

    def count(self) -> int:
        """Walks through the whole table, beside the other readers."""
        connection = _reading(self.path)
        try:
            count: int = connection.execute("SELECT count(*) FROM rows").fetchone()[0]
        finally:
            connection.close()
        return count

    def positions(self) -> dict[int, int]:
        """The next offset of each partition: all before it is in the rows, as far as readers see them."""
        with self._reading:
            return dict(self._reader.execute("SELECT partition, next FROM positions").fetchall())

    def source(self) -> tuple[str, str] | None:
        """The topic and the id of the topic that the rows came from."""
        with self._reading:
            row = self._reader.execute("SELECT topic, topic_id FROM source").fetchone()
        return None if row is None else (row[0], row[1])

    def seen_ms(self) -> int:
        """When the rows were last known to be all that the topic has; before that, when they began to be read."""
        with self._reading:
            row = self._reader.execute("SELECT seen_ms FROM source").fetchone()
        return 0 if row is None else row[0]

    # --- writing, by the follower alone

    def apply(
        self, changes: Mapping[bytes, bytes | None], positions: Mapping[int, int], ages: Mapping[bytes, int] = NO_AGES
    ) -> None:
        """The newest value of each key, None for a deleted one, and how far the changelog has been read with them.

        `ages`: when each was written, in milliseconds, if `forget_before` is to know.
        """
        # In the order of the keys neighbours share pages: each page is written once per commit.
        rows = sorted((key, value) for key, value in changes.items() if value is not None)
        gone = sorted((key,) for key, value in changes.items() if value is None)
        written = [(key, ages[key]) for key, _ in rows if key in ages]
        with self._writer:
            self._writer.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", rows)
            self._writer.executemany("DELETE FROM rows WHERE key = ?", gone)
            self._writer.executemany("DELETE FROM ages WHERE key = ?", gone)
            self._writer.executemany("INSERT OR REPLACE INTO ages VALUES (?, ?)", written)
            self._writer.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?)", positions.items())

    def forget_before(self, written_ms: int) -> int:
        """How many rows were older than that, and are gone."""
        with self._writer:
            old = "SELECT key FROM ages WHERE written_ms < ?"
            gone = self._writer.execute(f"DELETE FROM rows WHERE key IN ({old})", (written_ms,)).rowcount  # noqa: S608
            self._writer.execute("DELETE FROM ages WHERE written_ms < ?", (written_ms,))
        return gone

    def saw_the_end(self, now_ms: int) -> None:
        with self._writer:
            self._writer.execute("UPDATE source SET seen_ms = ?", (now_ms,))

    def begin_again(self, topic: str, topic_id: str, now_ms: int = 0) -> None:
        """Empties the store: it is filled from the beginning of the topic."""
        with self._writer:
            for table in ("rows", "positions", "source", "ages"):
                self._writer.execute(f"DELETE FROM {table}")  # noqa: S608
            self._writer.execute("INSERT INTO source VALUES (?, ?, ?)", (topic, topic_id, now_ms))

    def close(self) -> None:
        with self._reading:
            self._reader.close()
        self._writer.close()
        self._lock_file.close()


def locked(path: Path) -> IO[bytes]:
    """Locks the store. Another process cannot open it until the returned file is closed."""
    lock_file = path.with_name(path.name + ".lock").open("wb")
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock_file.close()
        raise StoreBusy(path) from None
    return lock_file


def _opened(path: Path) -> sqlite3.Connection:
    """The writer. A file that is damaged or of another layout is no loss: the changelog has it all."""
    writer = sqlite3.connect(path, check_same_thread=False, timeout=BUSY_TIMEOUT_S)
    if _has_our_layout(writer):
        writer.executescript(f"{_CACHE}{_SETTINGS}{_TABLES}PRAGMA user_version={LAYOUT};")
        return writer
    writer.close()
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    return _opened(path)


def _has_our_layout(connection: sqlite3.Connection) -> bool:
    try:
        return connection.execute("PRAGMA user_version").fetchone()[0] in (0, LAYOUT)
    except sqlite3.OperationalError:  # busy, a full disk, no permission: nothing is wrong with the file
        connection.close()
        raise
    except sqlite3.DatabaseError:
        return False


def _reading(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False, timeout=BUSY_TIMEOUT_S)
    connection.executescript(_CACHE)
    return connection


def _page(rows: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    page, size = [], 0
    for key, value in rows:
        page.append((key, value))
        size += len(key) + len(value)
        if size >= PAGE_BYTES:
            break
    return page


def _successor(prefix: bytes) -> bytes | None:
    """The first key after all keys with this prefix; None when nothing comes after them."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None
