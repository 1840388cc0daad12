"""What has landed outside of topics: the alerts in the SQL table and in Parquet, counted, read and compared."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError

from odradek.demo.trucking import topics
from odradek.demo.trucking.database import Database

LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    table: int = 0
    lake: int = 0
    files: int = 0


class Landed:
    """Counts once a second, on a thread of its own."""

    def __init__(self, database: Database, lake: Path) -> None:
        self._database = database
        self._folder = lake / topics.ALERTS
        self._rows: dict[Path, int] = {}  # of Parquet files, which never change
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="landed", daemon=True)
        self.counts = Counts()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def problems(self, alerts: Iterable[Mapping[str, Any]]) -> list[str]:
        """In sentences; none if table and files have exactly these alerts, each once."""
        expected = Counter(map(_comparable, alerts))
        try:
            table = Counter(map(_comparable, self._database.alerts()))
        except DBAPIError as failed:
            return [f"the SQL table cannot be read: {failed.orig}"]
        lake = Counter(map(_comparable, self._rows_of_lake()))
        return [*_compared("the SQL table", expected, table), *_compared("Parquet", expected, lake)]

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            with suppress(DBAPIError, OSError):  # the database is away, or a file is just being moved
                self._look()

    def _look(self) -> None:
        for path in self._files():
            if path not in self._rows:
                from pyarrow import parquet  # late, because it takes a second

                self._rows[path] = parquet.read_metadata(path).num_rows
        self.counts = Counts(table=self._database.alert_count(), lake=sum(self._rows.values()), files=len(self._rows))

    def _files(self) -> list[Path]:
        """Without those of appends that are not committed, which are in `_odradek`."""
        return sorted(self._folder.glob("*.parquet"))

    def _rows_of_lake(self) -> Iterator[Mapping[str, Any]]:
        from pyarrow import parquet

        for path in self._files():
            yield from parquet.read_table(path).to_pylist()


def _comparable(row: Mapping[str, Any]) -> str:
    """A row as text. A table holds the list of kinds as JSON text."""
    kinds = row["kinds"]
    return json.dumps({**row, "kinds": json.loads(kinds) if isinstance(kinds, str) else kinds}, sort_keys=True)


def _compared(place: str, expected: Counter[str], found: Counter[str]) -> Iterator[str]:
    if missing := expected - found:
        yield f"{place}: {missing.total()} of {expected.total()} alerts are missing, one is {min(missing)}"
    if extra := found - expected:
        yield f"{place}: {extra.total()} alerts that the topic does not have, or twice, one is {min(extra)}"
