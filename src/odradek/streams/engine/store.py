"""The state of one shard: values and timers by step and key, in one SQLite file, one version per micro-batch.

A micro-batch that was interrupted is run again from the state before it. So what a micro-batch changed is kept aside
until the next one begins: only then Spark has committed it. One that is run again throws its first attempt away. A
shard that gets no rows the second time learns of it when its next micro-batch begins: by the run that made the attempt.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from secrets import token_bytes
from types import MappingProxyType
from typing import Any

_TABLES = """
create table if not exists state (step integer, key blob, value blob, primary key (step, key)) without rowid;
create table if not exists timer (step integer, due integer, key blob, primary key (step, due, key)) without rowid;
create index if not exists timer_of_key on timer (step, key);
create table if not exists new_state (step integer, key blob, value blob);
create table if not exists new_timer (step integer, due integer, key blob, is_set integer);
create table if not exists version (batch integer);
create table if not exists attempt (run text, token blob);
"""
_CACHED_MAX = 50_000
_GONE: Any = object()
_FIGURES_STEP, _FIGURES_KEY = -2, b"figures"
STATE_ROWS = "state rows"
Due = tuple[int, bytes]


class StateMismatch(Exception):
    """The state on disk does not belong to the micro-batch that is to be run."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the query, from its start to its stop. `committed`: Spark's last micro-batch when it began."""

    name: str
    committed: int


ONE_RUN = Run("", -1)
"""For tests: all micro-batches are of one run, so each is committed when the next begins."""


class Cells:
    """The values of one step by key. What `get` gave may be changed in place; `put` says that it was."""

    def __init__(self, connection: sqlite3.Connection, step: int, cached: dict[bytes, Any]) -> None:
        self._sql, self._step, self._cached = connection, step, cached
        self._changed: dict[bytes, bool] = {}  # and whether there was a value before

    def get(self, key: bytes) -> Any:  # noqa: ANN401 whatever the step keeps
        value = self._cached.get(key, _GONE)
        if value is _GONE:
            row = self._sql.execute("select value from state where step=? and key=?", (self._step, key)).fetchone()
            value = self._cached[key] = None if row is None else pickle.loads(row[0])  # noqa: S301 our own file
        return value

    def put(self, key: bytes, value: Any) -> None:  # noqa: ANN401
        if key not in self._changed:
            self._changed[key] = self.get(key) is not None
        self._cached[key] = value

    def remove(self, key: bytes) -> None:
        self.put(key, None)

    def growth(self) -> int:
        """How many keys more have a value now."""
        return sum((self._cached[key] is not None) - was for key, was in self._changed.items())

    def news(self) -> Iterator[tuple[int, bytes, bytes | None]]:
        for key in self._changed:
            value = self._cached[key]
            yield self._step, key, None if value is None else pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


class TimerQueue:
    """The timers of one step: at most one for a key and a time."""

    def __init__(self, connection: sqlite3.Connection, step: int) -> None:
        self._sql, self._step = connection, step
        self._changed: dict[bytes, dict[int, bool]] = {}  # by key: whether the timer of a time is set
        self._set: dict[bytes, set[int]] = {}  # all timers of the keys that were asked for
        self._soon: list[Due] = []  # a heap of all that are due by `_through`, and of those set now
        self._through = -(1 << 62)
        self._next = self._next_stored()

    def set(self, due: int, key: bytes) -> None:
        if self._is_changed(due, key) is not True:
            self._change(due, key, is_set=True)
            heappush(self._soon, (due, key))

    def cancel(self, due: int, key: bytes) -> None:
        self._change(due, key, is_set=False)

    def of(self, key: bytes) -> list[int]:
        """When this key's timers are due."""
        found = self._set.get(key)
        if found is None:
            stored = self._sql.execute("select due from timer where step=? and key=?", (self._step, key))
            found = self._set[key] = {due for (due,) in stored}
            for due, is_set in self._changed.get(key, {}).items():
                (found.add if is_set else found.discard)(due)
        return sorted(found)

    def pop(self, now: int) -> Due | None:
        """The next one that is due by now, which is no longer set then."""
        if self._next is not None and self._next <= now:
            self._read_through(now)
        while self._soon and self._soon[0][0] <= now:
            due, key = heappop(self._soon)
            if self._is_changed(due, key) is not False:
                self._change(due, key, is_set=False)
                return due, key
        return None

    def news(self) -> Iterator[tuple[int, int, bytes, bool]]:
        for key, changed in self._changed.items():
            for due, is_set in changed.items():
                yield self._step, due, key, is_set

    def _is_changed(self, due: int, key: bytes) -> bool | None:
        """Whether this micro-batch has set it; None: neither set nor taken back."""
        return self._changed.get(key, {}).get(due)

    def _change(self, due: int, key: bytes, *, is_set: bool) -> None:
        self._changed.setdefault(key, {})[due] = is_set
        if (found := self._set.get(key)) is not None:
            (found.add if is_set else found.discard)(due)

    def _read_through(self, now: int) -> None:
        stored = self._sql.execute(
            "select due, key from timer where step=? and due>? and due<=?", (self._step, self._through, now)
        )
        for due in stored.fetchall():
            if self._is_changed(*due) is None:
                heappush(self._soon, due)
        self._through = now
        self._next = self._next_stored()

    def _next_stored(self) -> int | None:
        row = self._sql.execute(
            "select min(due) from timer where step=? and due>?", (self._step, self._through)
        ).fetchone()
        due: int | None = row[0]
        return due


def read_figures(path: Path) -> dict[str, int]:
    """What a shard has counted so far: late rows, rows of state."""
    figures: dict[str, int] | None = read_cell(path, _FIGURES_STEP, _FIGURES_KEY)
    return figures or {}


def read_cell(path: Path, step: int, key: bytes) -> Any:  # noqa: ANN401 whatever was put there
    """A value of a shard, None if there is none. For the driver, while a task writes."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)
    try:
        where = (step, key)
        row = connection.execute("select value from new_state where step=? and key=?", where).fetchone()
        row = row or connection.execute("select value from state where step=? and key=?", where).fetchone()
    finally:
        connection.close()
    return None if row is None else pickle.loads(row[0])  # noqa: S301 our own file


class ShardStore:
    """One micro-batch at a time: `begin`, changes to cells and timers, `commit`; or `roll_back`."""

    def __init__(self, path: Path, *, several_hosts: bool = False) -> None:
        """`several_hosts`: it is opened by one after the other; a write-ahead log needs memory that all share."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._sql = sqlite3.connect(path, isolation_level=None, timeout=60.0, check_same_thread=False)
        self._sql.execute(f"pragma journal_mode={'delete' if several_hosts else 'wal'}")
        self._sql.execute("pragma synchronous=full")
        self._sql.executescript(_TABLES)
        self._caches: dict[int, dict[bytes, Any]] = {}
        self._token: bytes | None = None  # of the attempt that the caches are of: what this worker wrote last
        self._cells: dict[int, Cells] = {}
        self._timers: dict[int, TimerQueue] = {}
        self._batch, self._run = -1, ONE_RUN

    def begin(self, batch: int, run: Run = ONE_RUN) -> None:
        self._sql.execute("begin immediate")
        row = self._sql.execute("select batch from version").fetchone()
        last = -1 if row is None else row[0]
        if batch < last:
            self._sql.execute("rollback")
            raise StateMismatch(
                f"the state in {self._path} is of micro-batch {last}, and Spark runs micro-batch {batch}: the state is "
                "newer than the checkpoint; `odradek streams reset` starts the application from the beginning"
            )
        made_by, token = self._sql.execute("select run, token from attempt").fetchone() or (None, None)
        # Within a run Spark goes on to the next one when the last is committed; a shard without rows is left out.
        holds = batch > last and (made_by == run.name or last <= run.committed)
        if holds:
            self._settle()
        self._sql.execute("delete from new_state")
        self._sql.execute("delete from new_timer")
        if not holds or token != self._token or sum(map(len, self._caches.values())) > _CACHED_MAX:
            self._caches = {}
        self._cells, self._timers, self._batch, self._run = {}, {}, batch, run

    def cells(self, step: int) -> Cells:
        if step not in self._cells:
            self._cells[step] = Cells(self._sql, step, self._caches.setdefault(step, {}))
        return self._cells[step]

    def timers(self, step: int) -> TimerQueue:
        if step not in self._timers:
            self._timers[step] = TimerQueue(self._sql, step)
        return self._timers[step]

    def commit(self, counts: Mapping[str, int] = MappingProxyType({})) -> None:
        """`counts`: what is added to the figures of the shard."""
        figures = self.cells(_FIGURES_STEP)
        total = Counter(figures.get(_FIGURES_KEY) or {})
        total.update(counts)
        total[STATE_ROWS] += sum(cells.growth() for step, cells in self._cells.items() if step >= 0)
        figures.put(_FIGURES_KEY, dict(total))
        for cells in self._cells.values():
            self._sql.executemany("insert into new_state values (?, ?, ?)", cells.news())
        for timers in self._timers.values():
            self._sql.executemany("insert into new_timer values (?, ?, ?, ?)", timers.news())
        self._sql.execute("delete from version")
        self._sql.execute("insert into version values (?)", (self._batch,))
        token = token_bytes(8)
        self._sql.execute("delete from attempt")
        self._sql.execute("insert into attempt values (?, ?)", (self._run.name, token))
        self._sql.execute("commit")
        self._token = token

    def roll_back(self) -> None:
        self._caches = {}
        if self._sql.in_transaction:  # SQLite has rolled back by itself when the disk was full
            self._sql.execute("rollback")

    def close(self) -> None:
        self._sql.close()

    def _settle(self) -> None:
        """What the last micro-batch changed holds. By key, as a scan would take as long as the state is large."""
        gone = self._sql.execute("select step, key from new_state where value is null").fetchall()
        self._sql.executemany("delete from state where step=? and key=?", gone)
        self._sql.execute("insert or replace into state select * from new_state where value is not null")
        over = self._sql.execute("select step, due, key from new_timer where not is_set").fetchall()
        self._sql.executemany("delete from timer where step=? and due=? and key=?", over)
        self._sql.execute("insert or replace into timer select step, due, key from new_timer where is_set")
