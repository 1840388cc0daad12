"""Connections to SQL databases, and types of columns: SQLite, PostgreSQL and MariaDB, through SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from odradek.connect import records
from odradek.connect.interface import RetriableError
from odradek.connect.options import Secret, not_empty, option
from odradek.connect.records import Kind, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseConfig:
    connection_url: str = option(
        "The database: sqlite:///shop.db (a relative path), sqlite:////data/shop.db, postgresql://host:5432/shop, "
        "or mariadb://host:3306/shop.",
        importance="HIGH",
        check=not_empty,
    )
    connection_user: str | None = option("The user.", default=None, importance="HIGH")
    connection_password: Secret | None = option("The password.", default=None, importance="HIGH")


_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mariadb": "mariadb+pymysql"}
# Times without a zone are in UTC, whatever the server's default is. MariaDB must refuse values that do not fit.
_ARGUMENTS: Mapping[str, dict[str, Any]] = {
    "sqlite": {},
    "postgresql": {"options": "-c timezone=UTC"},
    "mariadb": {
        "charset": "utf8mb4",
        "init_command": "SET time_zone = '+00:00', sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')",
    },
}
# PyMySQL raises OperationalError for these and for many errors of statements and values: connections (2000 to 2099),
# too many of them, a server that stops or is read-only, logins, lost packets, lock timeouts and deadlocks.
_OUTAGES = frozenset(
    {
        *range(1000),
        *range(1152, 1162),
        *range(2000, 2100),
        1040,
        1044,
        1045,
        1049,
        1053,
        1203,
        1205,
        1213,
        1226,
        1290,
        1836,
        1927,
    }
)


def engine(config: DatabaseConfig) -> sa.Engine:
    url = sa.make_url(config.connection_url)
    backend = url.get_backend_name()
    if backend not in _DRIVERS:
        raise ValueError(f"connection.url names {backend!r}; {', '.join(_DRIVERS)} are supported")
    if url.drivername == backend:
        url = url.set(drivername=_DRIVERS[backend])
    if config.connection_user is not None:
        url = url.set(username=config.connection_user)
    if config.connection_password is not None:
        url = url.set(password=config.connection_password.reveal())
    return sa.create_engine(url, pool_pre_ping=True, connect_args=_ARGUMENTS[backend])


@contextmanager
def outages_told(what: str) -> Iterator[None]:
    """An unreachable or locked database is retried. Other errors are about the statement or its rows."""
    try:
        yield
    except (OperationalError, InterfaceError) as failed:
        if not _is_outage(failed):
            raise
        raise RetriableError(f"{what}: {_short(failed)}") from failed
    except DBAPIError as failed:
        if failed.connection_invalidated:
            raise RetriableError(f"{what}: {_short(failed)}") from failed
        raise


def _is_outage(failed: DBAPIError) -> bool:
    number = failed.orig.args[0] if failed.orig is not None and failed.orig.args else None
    return not isinstance(number, int) or number in _OUTAGES


def _short(failed: DBAPIError) -> str:
    """Without the statement and its parameters, which hold data."""
    return str(failed.orig).strip()


def schema_of(table: sa.Table, name: str | None = None) -> Schema:
    """The struct with one field for each column of a table."""
    fields = [(column.name, _schema_of(column)) for column in table.columns]
    return records.struct(fields, name=name)


def _schema_of(column: sa.Column[Any]) -> Schema:
    plain = _of_mariadb(column.type) or _plain(column.type)
    return plain.or_null() if column.nullable else plain


def _of_mariadb(kind: sa.types.TypeEngine[Any]) -> Schema | None:
    """Of types that only MariaDB has."""
    match kind:
        case mysql.BIGINT(unsigned=True):
            return records.decimal(0, 20)
        case mysql.INTEGER(unsigned=True):
            return records.INT64
        case mysql.TINYINT():
            return records.INT16
        case mysql.SMALLINT(unsigned=True) | mysql.YEAR():
            return records.INT32
        case mysql.BIT():
            return records.INT64
        case _:
            return None


def _plain(kind: sa.types.TypeEngine[Any]) -> Schema:
    match kind:
        case sa.Boolean():
            return records.BOOLEAN
        case sa.SmallInteger():
            return records.INT16
        case sa.BigInteger():
            return records.INT64
        case sa.Integer():
            # SQLite stores 64 bits in every INTEGER.
            return records.INT64 if kind.__class__.__module__.endswith("sqltypes") else records.INT32
        case sa.Double() | sa.Float():
            return records.FLOAT64
        case sa.Numeric():
            return records.decimal(kind.scale or 0, kind.precision)
        case sa.DateTime():
            return records.TIMESTAMPS
        case sa.Date():
            return records.DATES
        case sa.Time():
            return records.TIMES
        case sa.LargeBinary():
            return records.BYTES
        case _:
            return records.STRING


_COLUMNS: Mapping[Kind, sa.types.TypeEngine[Any]] = {
    Kind.INT8: sa.SmallInteger(),
    Kind.INT16: sa.SmallInteger(),
    Kind.INT32: sa.Integer(),
    Kind.INT64: sa.BigInteger(),
    Kind.FLOAT32: sa.Float(),
    Kind.FLOAT64: sa.Double(),
    Kind.BOOLEAN: sa.Boolean(),
    Kind.STRING: sa.Text().with_variant(mysql.LONGTEXT(), "mariadb"),
    Kind.BYTES: sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mariadb"),
    Kind.ARRAY: sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
    Kind.MAP: sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
    Kind.STRUCT: sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
}


# MariaDB has no keys of unlimited length.
_KEYS: Mapping[Kind, sa.types.TypeEngine[Any]] = {
    Kind.STRING: sa.Text().with_variant(mysql.VARCHAR(255), "mariadb"),
    Kind.BYTES: sa.LargeBinary().with_variant(mysql.VARBINARY(255), "mariadb"),
}
_DIGITS_MAX = 65

# Of tables that are created. In other collations, keys that differ only in case or in spaces at the end are the same.
TABLE_OPTIONS: dict[str, Any] = {
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_nopad_bin",
}


def column_type(schema: Schema, *, is_key: bool = False) -> sa.types.TypeEngine[Any]:
    """The type of a new column for values of a schema."""
    match schema.name:
        case records.DECIMAL:
            digits, scale = schema.parameters.get("connect.decimal.precision"), int(schema.parameters["scale"])
            if digits:
                return sa.Numeric(int(digits), scale)
            return sa.Numeric(None, scale).with_variant(mysql.NUMERIC(_DIGITS_MAX, scale), "mariadb")
        case records.DATE:
            return sa.Date()
        case records.TIME:
            return sa.Time().with_variant(mysql.TIME(fsp=6), "mariadb")
        case records.TIMESTAMP:
            return sa.DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), "mariadb")
        case _:
            return (_KEYS if is_key else _COLUMNS).get(schema.kind, _COLUMNS[schema.kind])


def guessed(value: object) -> Schema:
    """The schema of a value that came without one."""
    match value:
        case bool():
            return records.BOOLEAN
        case int():
            return records.INT64
        case float():
            return records.FLOAT64
        case bytes():
            return records.BYTES
        case dict() | list():
            return records.mapping(records.STRING, records.STRING)
        case _:
            return records.STRING
