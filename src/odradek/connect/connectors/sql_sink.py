"""`sql-sink`: records as rows; inserts, upserts, deletes by tombstones, tables that are created and extended.

The offsets of a batch are stored in the same transaction as its rows, so each record counts exactly once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from odradek.connect.connectors.sql_database import (
    TABLE_OPTIONS,
    DatabaseConfig,
    column_type,
    engine,
    guessed,
    outages_told,
)
from odradek.connect.interface import BadRecord, Sink, TopicPartition
from odradek.connect.options import option
from odradek.connect.progress import NEW, Progress
from odradek.connect.records import Record, Schema, TopicPlace

OFFSETS = "odradek_connect_offsets"
PLACE = ("connect_topic", "connect_partition", "connect_offset")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSinkConfig(DatabaseConfig):
    insert_mode: Literal["insert", "upsert"] = option(
        "insert adds rows; upsert replaces the row with the same primary key.", default="insert", importance="HIGH"
    )
    pk_mode: Literal["none", "kafka", "record_key", "record_value"] = option(
        "Where primary keys come from: topic, partition and offset; the record's key; fields of its value.",
        default="none",
        importance="HIGH",
    )
    pk_fields: list[str] = option("The columns of the primary key.", default=[])
    delete_enabled: bool = option("A tombstone deletes the row with its key; needs pk.mode=record_key.", default=False)
    table_name_format: str = option("The table's name; ${topic} is the topic.", default="${topic}")
    auto_create: bool = option("Create missing tables.", default=False)
    auto_evolve: bool = option("Add missing columns.", default=False)


class SqlSink(Sink[SqlSinkConfig]):
    """One transaction for each batch: its rows, and in `odradek_connect_offsets` how far the topic was read."""

    Config: ClassVar[type] = SqlSinkConfig

    def __init__(self, config: SqlSinkConfig) -> None:
        super().__init__(config)
        self._check()
        self._engine = engine(config)
        self._tables: dict[str, sa.Table] = {}
        self._progress: dict[TopicPartition, Progress] = {}
        self._offsets = sa.Table(
            OFFSETS,
            sa.MetaData(),
            sa.Column("connector", sa.String(255), primary_key=True),
            sa.Column("topic", sa.String(255), primary_key=True),
            sa.Column("partition", sa.Integer, primary_key=True),
            sa.Column("first_offset", sa.BigInteger, nullable=False),
            sa.Column("begin_offset", sa.BigInteger, nullable=False),
            sa.Column("end_offset", sa.BigInteger, nullable=False),
            **TABLE_OPTIONS,
        )

    def _check(self) -> None:
        wanted = self.config
        if wanted.insert_mode == "upsert" and wanted.pk_mode == "none":
            raise ValueError("insert.mode=upsert needs a primary key: set pk.mode")
        if wanted.delete_enabled and wanted.pk_mode != "record_key":
            raise ValueError("delete.enabled=true needs pk.mode=record_key: a tombstone has only a key")
        if wanted.pk_mode == "record_value" and not wanted.pk_fields:
            raise ValueError('pk.mode=record_value needs "pk.fields": the fields of the value that are the key')
        if wanted.pk_mode == "kafka" and wanted.pk_fields and len(wanted.pk_fields) != len(PLACE):
            raise ValueError("pk.mode=kafka needs three pk.fields: for topic, partition and offset")

    # --- offsets

    def positions(self, committed: Mapping[TopicPartition, int | None]) -> Mapping[TopicPartition, int]:
        with outages_told("reading offsets"), self._engine.begin() as connection:
            self._offsets.create(connection, checkfirst=True)
            mine = sa.select(self._offsets).where(self._offsets.c.connector == self.connector)
            known = {
                (row.topic, row.partition): Progress(first=row.first_offset, begin=row.begin_offset, end=row.end_offset)
                for row in connection.execute(mine)
            }
        found: dict[TopicPartition, int] = {}
        for place, offset in committed.items():
            progress = known.get(place, NEW)
            at = progress.continues_at(offset) if progress is not NEW else None
            self._progress[place] = NEW if at is None else progress
            if at is not None:
                found[place] = at
        return found

    def _store_offsets(self, connection: sa.Connection, records: Sequence[Record]) -> dict[TopicPartition, Progress]:
        moved: dict[TopicPartition, tuple[int, int]] = {}
        for record in records:
            place = _place(record)
            at = (place.topic, place.partition)
            # Not simply its first record: the records between the committed offset and that one may be no rows.
            committed = self.group_offsets.get(at)
            begin = moved.get(at, (place.offset if committed is None else committed, 0))[0]
            moved[at] = (begin, place.offset + 1)
        progress = {place: self._progress.get(place, NEW).after(*span) for place, span in moved.items()}
        rows = [
            {
                "connector": self.connector,
                "topic": topic,
                "partition": partition,
                "first_offset": each.first,
                "begin_offset": each.begin,
                "end_offset": each.end,
            }
            for (topic, partition), each in progress.items()
        ]
        connection.execute(self._upsert(self._offsets, list(rows[0])), rows)
        return progress

    # --- rows

    def write(self, records: Sequence[Record]) -> None:
        with outages_told("writing rows"), self._engine.begin() as connection:
            # MariaDB commits before it creates or changes a table, so all tables are prepared before the first row.
            groups = self._grouped(records)
            for name, kind, some in groups:
                self._fitting(connection, name, *self._columns(kind, some))
            for name, kind, some in groups:
                if kind == "delete":
                    self._delete(connection, name, some)
                else:
                    self._insert(connection, name, some)
            progress = self._store_offsets(connection, records)
        self._progress |= progress

    def _grouped(self, records: Sequence[Record]) -> list[tuple[str, str, list[Record]]]:
        """Consecutive records for one table and of one kind, so that the order of a key's changes is kept."""
        groups: list[tuple[str, str, list[Record]]] = []
        for record in records:
            if record.value is None and not self.config.delete_enabled:
                raise BadRecord(record, "a tombstone, but delete.enabled is false")
            kind = "delete" if record.value is None else "insert"
            table = self.config.table_name_format.replace("${topic}", record.topic)
            if not groups or groups[-1][:2] != (table, kind):
                groups.append((table, kind, []))
            groups[-1][2].append(record)
        return groups

    def _columns(self, kind: str, records: list[Record]) -> tuple[dict[str, Schema], list[str]]:
        """The columns that records need, and those of them that are the primary key."""
        rows = [self._key(record) if kind == "delete" else self._row(record) for record in records]
        columns = {column: schema for row in rows for column, (_, schema) in row.items()}
        return columns, list(columns) if kind == "delete" else self._key_columns(records[0])

    def _insert(self, connection: sa.Connection, name: str, records: list[Record]) -> None:
        rows = [self._row(record) for record in records]
        columns = list({column: None for row in rows for column in row})
        keys = self._key_columns(records[0])
        table = self._tables[name]
        values = [{column: _stored(table, column, row) for column in columns} for row in rows]
        if self.config.insert_mode == "insert":
            connection.execute(sa.insert(table), values)
            return
        # A statement may change a row only once: of several records with one key, the last one counts.
        last = {tuple(value[key] for key in keys): value for value in values}
        connection.execute(self._upsert(table, columns), list(last.values()))

    def _delete(self, connection: sa.Connection, name: str, records: list[Record]) -> None:
        table = self._tables[name]
        for record in records:
            same = [table.c[column] == value for column, (value, _) in self._key(record).items()]
            connection.execute(sa.delete(table).where(*same))

    def _upsert(self, table: sa.Table, columns: list[str]) -> Any:  # noqa: ANN401 (an insert of the dialect)
        keys = [column.name for column in table.primary_key.columns]
        if not keys:
            raise ValueError(f"the table {table.name} has no primary key, which insert.mode=upsert needs")
        if self._engine.dialect.name == "mariadb":
            new = mysql.insert(table)
            # A table of keys alone: the row is the same.
            changed = [name for name in columns if name not in keys] or keys
            return new.on_duplicate_key_update({name: new.inserted[name] for name in changed})
        insert = (sqlite if self._engine.dialect.name == "sqlite" else postgresql).insert(table)
        others = {name: insert.excluded[name] for name in columns if name not in keys}
        if not others:
            return insert.on_conflict_do_nothing(index_elements=keys)
        return insert.on_conflict_do_update(index_elements=keys, set_=others)

    def _row(self, record: Record) -> dict[str, tuple[object, Schema]]:
        """The columns of a record: the value and its type."""
        if not isinstance(record.value, dict):
            raise BadRecord(record, f"its value is a {type(record.value).__name__}; a row needs a struct or an object")
        schema = record.value_schema
        row = {
            str(name): (value, (schema.of(name) if schema else None) or guessed(value))
            for name, value in record.value.items()
        }
        return row | self._key(record)

    def _key(self, record: Record) -> dict[str, tuple[object, Schema]]:
        match self.config.pk_mode:
            case "kafka":
                place = _place(record)
                values: tuple[object, ...] = (place.topic, place.partition, place.offset)
                return {name: (value, guessed(value)) for name, value in zip(self._kafka_names, values, strict=True)}
            case "record_key" if isinstance(record.key, dict):
                names = self.config.pk_fields or list(record.key)
                return {name: self._field(record, record.key, record.key_schema, name) for name in names}
            case "record_key" if record.key is not None:
                if len(self.config.pk_fields) != 1:
                    raise BadRecord(record, "its key is a single value: name its column with pk.fields")
                return {self.config.pk_fields[0]: (record.key, record.key_schema or guessed(record.key))}
            case "record_key":
                raise BadRecord(record, "it has no key, but pk.mode=record_key")
            case "record_value" if isinstance(record.value, dict):
                names = self.config.pk_fields
                return {name: self._field(record, record.value, record.value_schema, name) for name in names}
            case _:
                return {}

    def _field(self, record: Record, found: Row, schema: Schema | None, name: str) -> tuple[object, Schema]:
        if found.get(name) is None:
            raise BadRecord(record, f"its primary key {name!r} is missing or null")
        return found[name], (schema.of(name) if schema else None) or guessed(found[name])

    @property
    def _kafka_names(self) -> Sequence[str]:
        return self.config.pk_fields or PLACE

    def _key_columns(self, record: Record) -> list[str]:
        return list(self._key(record))

    # --- tables

    def _fitting(
        self, connection: sa.Connection, name: str, columns: Mapping[str, Schema], keys: Sequence[str]
    ) -> sa.Table:
        """The table with all of these columns, created or extended if that is allowed."""
        table = self._tables.get(name)
        if table is not None and columns.keys() <= set(table.c.keys()):
            return table
        if not sa.inspect(connection).has_table(name):
            if not self.config.auto_create:
                raise ValueError(f"there is no table {name!r}; create it, or set auto.create=true")
            made = (_column(each, columns[each], each in keys) for each in columns)
            table = sa.Table(name, sa.MetaData(), *made, **TABLE_OPTIONS)
            table.create(connection)
        table = sa.Table(name, sa.MetaData(), autoload_with=connection)
        missing = [each for each in columns if each not in table.c]
        if missing and not self.config.auto_evolve:
            raise ValueError(f"the table {name!r} has no column {missing[0]!r}; add it, or set auto.evolve=true")
        for each in missing:
            self._add_column(connection, table, each, columns[each])
        if missing:
            table = sa.Table(name, sa.MetaData(), autoload_with=connection)
        self._tables[name] = table
        return table

    def _add_column(self, connection: sa.Connection, table: sa.Table, name: str, schema: Schema) -> None:
        preparer = self._engine.dialect.identifier_preparer
        kind = column_type(replace(schema, optional=True)).compile(self._engine.dialect)
        connection.execute(
            sa.text(f"ALTER TABLE {preparer.format_table(table)} ADD COLUMN {preparer.quote(name)} {kind}")
        )

    def close(self) -> None:
        self._engine.dispose()


def _stored(table: sa.Table, column: str, row: Mapping[str, tuple[object, Schema]]) -> object:
    """A list or an object is JSON text in a column that is not of a type for JSON; MariaDB has no other ones."""
    value = row[column][0] if column in row else None
    if isinstance(value, dict | list) and not isinstance(table.c[column].type, sa.JSON):
        return json.dumps(value, default=str)
    return value


def _column(name: str, schema: Schema, is_key: bool) -> sa.Column[Any]:
    return sa.Column(name, column_type(schema, is_key=is_key), primary_key=is_key, autoincrement=False)


def _place(record: Record) -> TopicPlace:
    if not isinstance(record.place, TopicPlace):
        raise TypeError(f"a record for a sink has the place {record.place!r}")
    return record.place
