"""`sql-source`: rows of tables or of a query, found by an increasing column, a timestamp column, or all each time."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal

import sqlalchemy as sa

from odradek.connect.connectors.sql_database import DatabaseConfig, engine, outages_told, schema_of
from odradek.connect.interface import Source
from odradek.connect.options import at_least, option
from odradek.connect.records import DECIMAL, Offset, Partition, Record, Schema, SourcePlace

QUERY: Partition = {"query": "query"}
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 (times without a zone are in UTC here)
SQLITE_TIME = "%Y-%m-%d %H:%M:%f"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSourceConfig(DatabaseConfig):
    mode: Literal["incrementing", "timestamp", "timestamp+incrementing", "bulk"] = option(
        "How new rows are found. Only bulk reads everything each time; no mode sees deleted rows.", importance="HIGH"
    )
    table_whitelist: list[str] = option("The tables to read; the default is all.", default=[], importance="HIGH")
    query: str | None = option("A query to read instead of tables, without WHERE.", default=None)
    incrementing_column_name: str | None = option("A column that only grows.", default=None)
    timestamp_column_name: str | None = option("The column with the time of the last change, in UTC.", default=None)
    timestamp_delay_interval_ms: int = option(
        "Rows that are younger are read later: transactions may commit out of order.", default=0, check=at_least(0)
    )
    topic_prefix: str = option("Topics are this and the table's name; with a query, this alone.", importance="HIGH")
    batch_max_rows: int = option("Rows that one query returns at most.", default=1000, check=at_least(1))
    schema_pattern: str | None = option("The schema of the tables.", default=None)


class SqlSource(Source[SqlSourceConfig]):
    """Each table is a partition. The offset has the last incrementing value and the last timestamp (microseconds)."""

    Config: ClassVar[type] = SqlSourceConfig

    def __init__(self, config: SqlSourceConfig) -> None:
        super().__init__(config)
        self._check()
        self._engine = engine(config)
        self._tables: dict[str, sa.FromClause] = {}

    def _check(self) -> None:
        wanted = self.config
        for part, name in (("incrementing", "incrementing_column_name"), ("timestamp", "timestamp_column_name")):
            if part in wanted.mode and getattr(wanted, name) is None:
                raise ValueError(f'mode={wanted.mode} needs the option "{name.replace("_", ".")}"')
        if wanted.query is not None and wanted.table_whitelist:
            raise ValueError('use either "query" or "table.whitelist"')

    def partitions(self) -> Sequence[Partition]:
        if self.config.query is not None:
            return [QUERY]
        with outages_told("listing tables"):
            known = sa.inspect(self._engine).get_table_names(self.config.schema_pattern)
        missing = [name for name in self.config.table_whitelist if name not in known]
        if missing:
            raise ValueError(f"there is no table {missing[0]!r}; the database has {', '.join(sorted(known)) or 'none'}")
        return [{"table": name} for name in (self.config.table_whitelist or sorted(known))]

    def has_news(self, partition: Partition, offset: Offset | None) -> bool:
        if self.config.mode == "bulk":
            return True
        table = self._table(partition)
        with outages_told("looking for rows"), self._engine.connect() as connection:
            return connection.execute(self._select(table, offset).limit(1)).first() is not None

    def read(self, partition: Partition, offset: Offset | None) -> Iterator[Record | None]:
        self._tables.pop(_name(partition), None)  # columns may have been added
        table = self._table(partition)
        schema = schema_of(table, _name(partition)) if isinstance(table, sa.Table) else None
        # MariaDB's BIGINT UNSIGNED does not fit into 64 bits with a sign.
        decimals = [field.name for field in schema.fields if field.schema.name == DECIMAL] if schema else []
        topic = self.config.topic_prefix + ("" if self.config.query else _name(partition))
        while True:
            with outages_told("reading rows"), self._engine.connect() as connection:
                rows = connection.execute(self._limited(table, offset)).mappings().all()
            for row in rows:
                value = {name: _in_utc(field) for name, field in row.items()}
                value |= {name: Decimal(whole) for name in decimals if isinstance(whole := value[name], int)}
                offset = self._offset_of(value)
                yield self._record(topic, value, schema, SourcePlace(partition, offset))
            if self.config.mode == "bulk" or len(rows) < self.config.batch_max_rows:
                return

    def _record(self, topic: str, value: dict[str, Any], schema: Schema | None, place: SourcePlace) -> Record:
        return Record(topic=topic, value=value, value_schema=schema, place=place)

    def _table(self, partition: Partition) -> sa.FromClause:
        name = _name(partition)
        if name not in self._tables:
            self._tables[name] = self._reflected(name)
        return self._tables[name]

    def _reflected(self, name: str) -> sa.FromClause:
        if self.config.query is not None:
            wanted = [self.config.incrementing_column_name, self.config.timestamp_column_name]
            columns: list[sa.ColumnClause[Any]] = [sa.column(each) for each in wanted if each]
            return sa.text(self.config.query).columns(*columns).subquery("rows")
        with outages_told(f"reading the columns of {name}"):
            return sa.Table(name, sa.MetaData(), autoload_with=self._engine, schema=self.config.schema_pattern)

    def _limited(self, table: sa.FromClause, offset: Offset | None) -> sa.Select[Any]:
        found = self._select(table, offset)
        return found if self.config.mode == "bulk" else found.limit(self.config.batch_max_rows)

    def _select(self, table: sa.FromClause, offset: Offset | None) -> sa.Select[Any]:
        # The columns of a query are not known before it runs.
        selected = sa.select(sa.text("*")).select_from(table) if self.config.query else sa.select(table)
        increasing, changed = self._column(table, "incrementing"), self._column(table, "timestamp")
        if changed is not None and self.config.timestamp_delay_interval_ms:
            newest = time.time() - self.config.timestamp_delay_interval_ms / 1000
            selected = selected.where(changed <= self._comparable(round(newest * 1_000_000)))
        if offset and increasing is not None and changed is not None:
            last = self._comparable(offset["timestamp"])
            later = sa.and_(changed == last, increasing > offset["incrementing"])
            selected = selected.where(sa.or_(changed > last, later))
        elif offset and increasing is not None:
            selected = selected.where(increasing > offset["incrementing"])
        elif offset and changed is not None:
            selected = selected.where(changed > self._comparable(offset["timestamp"]))
        order = [column for column in (changed, increasing) if column is not None]
        return selected.order_by(*order)

    def _column(self, table: sa.FromClause, part: str) -> sa.ColumnElement[Any] | None:
        name = getattr(self.config, f"{part}_column_name")
        if part not in self.config.mode or name is None:
            return None
        if name not in table.c:
            raise ValueError(f"{table} has no column {name!r}, which {part}.column.name names")
        found: sa.ColumnElement[Any] = table.c[name]
        if part == "timestamp" and self._is_sqlite:
            # SQLite has texts, with or without fractions of a second.
            return sa.func.strftime(SQLITE_TIME, found)
        return found

    def _comparable(self, microseconds: object) -> object:
        """A time in the form that the timestamp column is compared in."""
        at = EPOCH + dt.timedelta(microseconds=int(str(microseconds)))
        return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] if self._is_sqlite else at

    @property
    def _is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    def _offset_of(self, row: dict[str, Any]) -> Offset:
        offset: dict[str, object] = {}
        if "incrementing" in self.config.mode:
            offset["incrementing"] = row[str(self.config.incrementing_column_name)]
        if "timestamp" in self.config.mode:
            at = row[str(self.config.timestamp_column_name)]
            offset["timestamp"] = _microseconds(at)
        return offset

    def close(self) -> None:
        self._engine.dispose()


def _name(partition: Partition) -> str:
    return str(partition.get("table") or "query")


def _in_utc(value: object) -> object:
    """Times without a zone are in UTC."""
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    if isinstance(value, set):  # the type SET of MariaDB
        return ",".join(sorted(value))
    return bytes(value) if isinstance(value, memoryview) else value


def _microseconds(at: object) -> int:
    if not isinstance(at, dt.datetime):
        raise TypeError(f"the timestamp column has the value {at!r}; it must be a time and not null")
    return round((at.astimezone(dt.UTC).replace(tzinfo=None) - EPOCH) / dt.timedelta(microseconds=1))
