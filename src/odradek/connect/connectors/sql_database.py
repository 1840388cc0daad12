"""Connections to SQL databases, and types of columns: SQLite and PostgreSQL, through SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from odradek.connect import records
from odradek.connect.interface import RetriableError
from odradek.connect.options import Secret, not_empty, option
from odradek.connect.records import Kind, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseConfig:
    connection_url: str = option(
        "The database: sqlite:///shop.db (a relative path), sqlite:////data/shop.db, or postgresql://host:5432/shop.",
        importance="HIGH",
        check=not_empty,
    )
    connection_user: str | None = option("The user.", default=None, importance="HIGH")
    connection_password: Secret | None = option("The password.", default=None, importance="HIGH")


def engine(config: DatabaseConfig) -> sa.Engine:
    url = sa.make_url(config.connection_url)
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ValueError(f"connection.url names {url.get_backend_name()!r}; sqlite and postgresql are supported")
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if config.connection_user is not None:
        url = url.set(username=config.connection_user)
    if config.connection_password is not None:
        url = url.set(password=config.connection_password.reveal())
    # Times without a zone are in UTC, whatever the server's default is.
    more = {"connect_args": {"options": "-c timezone=UTC"}} if url.get_backend_name() == "postgresql" else {}
    return sa.create_engine(url, pool_pre_ping=True, **more)


@contextmanager
def outages_told(what: str) -> Iterator[None]:
    """An unreachable or locked database is retried. Other errors are about the statement or its rows."""
    try:
        yield
    except (OperationalError, InterfaceError) as failed:
        raise RetriableError(f"{what}: {_short(failed)}") from failed
    except DBAPIError as failed:
        if failed.connection_invalidated:
            raise RetriableError(f"{what}: {_short(failed)}") from failed
        raise


def _short(failed: DBAPIError) -> str:
    """Without the statement and its parameters, which hold data."""
    return str(failed.orig).strip()


def schema_of(table: sa.Table, name: str | None = None) -> Schema:
    """The struct with one field for each column of a table."""
    fields = [(column.name, _schema_of(column)) for column in table.columns]
    return records.struct(fields, name=name)


def _schema_of(column: sa.Column[Any]) -> Schema:
    plain = _plain(column.type)
    return plain.or_null() if column.nullable else plain


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
    Kind.STRING: sa.Text(),
    Kind.BYTES: sa.LargeBinary(),
    Kind.ARRAY: sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
    Kind.MAP: sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
    Kind.STRUCT: sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
}


def column_type(schema: Schema) -> sa.types.TypeEngine[Any]:
    """The type of a new column for values of a schema."""
    match schema.name:
        case records.DECIMAL:
            digits = schema.parameters.get("connect.decimal.precision")
            return sa.Numeric(int(digits) if digits else None, int(schema.parameters["scale"]))
        case records.DATE:
            return sa.Date()
        case records.TIME:
            return sa.Time()
        case records.TIMESTAMP:
            return sa.DateTime(timezone=True)
        case _:
            return _COLUMNS[schema.kind]


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
