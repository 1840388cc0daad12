"""The demo's database: the table of drivers, whose changes are captured, and the table in which alerts land."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from odradek.connect.connectors.sql_database import DatabaseConfig, engine
from odradek.connect.connectors.sql_sink import OFFSETS
from odradek.demo.trucking import topics
from odradek.demo.trucking.drivers import Driver

POSTGRES = "postgresql"
SLOT = "odradek_demo_trucking"
"""The replication slot of the connector, and its publication."""
DROP_ATTEMPTS, DROP_AGAIN_S = 10, 0.5
DROP_SLOT = (
    "SELECT pg_terminate_backend(active_pid), pg_drop_replication_slot(slot_name) "
    "FROM pg_replication_slots WHERE slot_name = :slot"
)

_TABLES = sa.MetaData()
DRIVERS = sa.Table(
    "driver",
    _TABLES,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("driverName", sa.Text, nullable=False),
    sa.Column("certified", sa.Boolean, nullable=False),
    sa.Column("wagePlan", sa.Text, nullable=False),
)
# The table of the `sql-sink`: named after the topic, with the fields of its records. It has no key: a record that
# were written twice would be two rows.
ALERTS = sa.Table(
    topics.ALERTS,
    _TABLES,
    sa.Column("driverId", sa.Integer, nullable=False),
    sa.Column("window_start", sa.Text, nullable=False),
    sa.Column("window_end", sa.Text, nullable=False),
    sa.Column("violations", sa.Integer, nullable=False),
    sa.Column("overspeeds", sa.Integer, nullable=False),
    sa.Column("kinds", sa.Text, nullable=False),
    sa.Column("driverName", sa.Text),
    sa.Column("certified", sa.Boolean),
    sa.Column("wagePlan", sa.Text),
    sa.Column("alert", sa.Text, nullable=False),
)


class DatabaseUnusable(Exception):
    """The demo cannot have its tables in this database."""


class Database:
    """SQLite in a file, or PostgreSQL. Its methods may be called from any thread."""

    def __init__(self, url: str) -> None:
        try:
            self._engine = engine(DatabaseConfig(connection_url=url))
        except (ValueError, sa.exc.ArgumentError) as wrong:
            raise DatabaseUnusable(str(wrong)) from wrong
        self.url = sa.make_url(url)
        self._is_ours = False

    @classmethod
    def in_file(cls, path: Path) -> Database:
        return cls(f"sqlite:///{path}")

    @property
    def is_postgres(self) -> bool:
        return self.url.get_backend_name() == POSTGRES

    @property
    def described(self) -> str:
        return "PostgreSQL" if self.is_postgres else "SQLite"

    def create(self, drivers: Iterable[Driver]) -> None:
        """The tables, with a row for each driver. An existing table is an error: it may belong to another program."""
        try:
            with self._engine.connect() as connection:
                if not self.is_postgres:
                    # Readers do not wait for the writer: the demo, `sqlite-cdc` and the sink share the file.
                    connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                _TABLES.create_all(connection, checkfirst=False)
                connection.execute(sa.insert(DRIVERS), [asdict(driver) for driver in drivers])
                connection.commit()
                self._is_ours = True
        except sa.exc.DBAPIError as failed:
            told = str(failed.orig).strip()
            raise DatabaseUnusable(f"the tables cannot be created: {told}\nUse an empty database.") from failed

    def update(self, driver: Driver) -> None:
        row = asdict(driver)
        with self._engine.begin() as connection:
            connection.execute(sa.update(DRIVERS).where(DRIVERS.c.id == row.pop("id")).values(row))

    def alert_count(self) -> int:
        with self._engine.connect() as connection:
            return int(connection.execute(sa.select(sa.func.count()).select_from(ALERTS)).scalar_one())

    def alerts(self) -> list[Mapping[str, Any]]:
        with self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(sa.select(ALERTS)).mappings()]

    def leave(self) -> None:
        """Closes it, and removes from a server what the demo and its connectors have made there."""
        try:
            if self.is_postgres and self._is_ours:
                self._remove()
        finally:
            self._engine.dispose()

    def _remove(self) -> None:
        with self._engine.begin() as connection:
            connection.exec_driver_sql(f"DROP PUBLICATION IF EXISTS {SLOT}")
            _TABLES.drop_all(connection)
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {OFFSETS}")
        self._drop_slot()

    def _drop_slot(self) -> None:
        """A slot that stays would hold back the server's log. A reader that was killed may still hold it."""
        for attempt in range(DROP_ATTEMPTS):
            try:
                with self._engine.begin() as connection:
                    connection.execute(sa.text(DROP_SLOT), {"slot": SLOT})
            except sa.exc.DBAPIError:
                if attempt == DROP_ATTEMPTS - 1:
                    raise
                time.sleep(DROP_AGAIN_S)
            else:
                return
