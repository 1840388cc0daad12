"""Connections to the server, the settings that it needs, and positions in its binlog."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from odradek.connect.connectors.mysql.config import MysqlCdcConfig
from odradek.connect.interface import RetriableError

# What the binlog must have, so that each event describes its table and has the whole row.
NEEDED = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
# The session of a snapshot: times in UTC as the binlog has them, and no limit to the time for which it may be idle.
SESSION = "SET time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600, wait_timeout = 28800"
# Errors of the client library: the server is away.
AWAY = frozenset({2002, 2003, 2006, 2013, 2014, 2055, 1053, 1927})


class NotSuitable(ValueError):
    """The server's settings do not allow to capture its changes."""


@dataclass(frozen=True, slots=True)
class Position:
    """Has no order: the numbers in the names of files get longer after 999999."""

    file: str
    at: int


def settings(config: MysqlCdcConfig) -> dict[str, Any]:
    """The arguments of a connection."""
    return {
        "host": config.database_hostname,
        "port": config.database_port,
        "user": config.database_user,
        "password": config.database_password.reveal() if config.database_password is not None else "",
        "charset": "utf8mb4",
        "connect_timeout": config.connect_timeout_ms / 1000,
        "autocommit": True,
    } | _encryption(config)


def _encryption(config: MysqlCdcConfig) -> dict[str, Any]:
    if config.database_ssl_mode == "disabled":
        return {"ssl_disabled": True}
    context = ssl.create_default_context(cafile=config.database_ssl_ca)
    context.check_hostname = config.database_ssl_mode == "verify_identity"
    if config.database_ssl_mode == "required":
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}


@contextmanager
def connected(
    config: MysqlCdcConfig, *, streaming: bool = False, answers_within_s: int | None = None
) -> Iterator[pymysql.Connection[Any]]:
    """`streaming`: rows are not kept in memory. `answers_within_s`: a longer statement breaks the connection."""
    more: dict[str, Any] = {"cursorclass": SSCursor} if streaming else {}
    more["read_timeout"] = answers_within_s
    with explained(), closing(pymysql.connect(**settings(config), **more)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(SESSION)
        yield connection


@contextmanager
def explained() -> Iterator[None]:
    """An outage of the server is no fault of a record."""
    try:
        yield
    except pymysql.err.OperationalError as broken:
        if is_outage(broken):
            raise RetriableError(f"the connection to the server broke: {broken.args[-1]}") from broken
        raise
    except (pymysql.err.InterfaceError, ConnectionError) as broken:
        raise RetriableError(f"the connection to the server broke: {broken}") from broken


def is_outage(failed: pymysql.err.MySQLError) -> bool:
    """Whether the connection is lost. PyMySQL raises OperationalError for that, and also for most other errors."""
    return isinstance(failed, pymysql.err.InterfaceError) or bool(failed.args and failed.args[0] in AWAY)


def check(connection: pymysql.Connection[Any]) -> None:
    """Raises NotSuitable, with the statements that help."""
    found = variables(connection, [*NEEDED])
    wrong = [name for name, value in NEEDED.items() if found.get(name, "").upper() != value]
    if "log_bin" in wrong:
        raise NotSuitable("the server has no binlog: start it with --log-bin and a --server-id")
    if wrong:
        told = ", ".join(f"{name} is {found.get(name, 'not known to the server')}" for name in wrong)
        advice = "; ".join(f"SET GLOBAL {name} = {NEEDED[name]}" for name in wrong)
        raise NotSuitable(f"{told}. Run: {advice}; put the same into the server's configuration file")


def variables(connection: pymysql.Connection[Any], names: list[str]) -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({', '.join(['%s'] * len(names))})", names)
        return {name.lower(): str(value) for name, value in cursor.fetchall()}


def is_mariadb(connection: pymysql.Connection[Any]) -> bool:
    return "mariadb" in connection.get_server_info().lower()


def position(connection: pymysql.Connection[Any]) -> Position:
    """The end of the binlog."""
    with connection.cursor() as cursor:
        try:
            cursor.execute("SHOW MASTER STATUS")
        except pymysql.err.ProgrammingError:
            cursor.execute("SHOW BINARY LOG STATUS")  # its name since MySQL 8.4
        found = cursor.fetchone()
    if found is None:
        raise NotSuitable("the server has no binlog: start it with --log-bin and a --server-id")
    return Position(str(found[0]), int(found[1]))


def has_file(connection: pymysql.Connection[Any], file: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        return any(row[0] == file for row in cursor.fetchall())


def begin_snapshot(connection: pymysql.Connection[Any]) -> Position:
    """A transaction that sees all rows as of one position in the binlog.

    MariaDB tells this position. Elsewhere the tables are locked for the moment in which it is asked.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if is_mariadb(connection):
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
            found: Mapping[str, str] = {name.lower(): value for name, value in cursor.fetchall()}
            return Position(found["binlog_snapshot_file"], int(found["binlog_snapshot_position"]))
        cursor.execute("FLUSH TABLES WITH READ LOCK")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    at = position(connection)
    with connection.cursor() as cursor:
        cursor.execute("UNLOCK TABLES")
    return at
