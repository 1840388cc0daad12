"""Captured tables: described by the binlog while streaming, by information_schema for a snapshot."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysqlreplication.constants import FIELD_TYPE
from pymysqlreplication.row_event import TableMapEvent

from odradek.connect.connectors.debezium import Row, TableShape, source_schema
from odradek.connect.connectors.mysql.config import SYSTEM_DATABASES, MysqlCdcConfig
from odradek.connect.connectors.mysql.types import ColumnType, Mapped, ZeroDate, mapped
from odradek.connect.records import INT32, INT64, STRING, Field, Schema

_log = logging.getLogger("odradek.connect.mysql")

COLUMNS = """
SELECT column_name, data_type, column_type, is_nullable, column_key, numeric_precision, numeric_scale,
datetime_precision FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
ORDER BY ordinal_position
"""
TABLES = """
SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' ORDER BY 1, 2
"""
KEY = """
SELECT column_name FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s
AND index_name = 'PRIMARY' ORDER BY seq_in_index
"""
# The type in the binlog has no length for these; Debezium's schemas do not differ.
NAMES = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.NEWDECIMAL: "decimal",
    FIELD_TYPE.BIT: "bit",
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.NEWDATE: "date",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.TIME2: "time",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.DATETIME2: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.TIMESTAMP2: "timestamp",
    FIELD_TYPE.JSON: "json",
    FIELD_TYPE.ENUM: "enum",
    FIELD_TYPE.SET: "set",
}
CHARACTERS = frozenset({FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING, FIELD_TYPE.BLOB})
# Kinds of geometries, by the numbers that the metadata of the binlog has.
GEOMETRIES = {0: "geometry", 1: "point", 2: "linestring", 3: "polygon", 4: "multipoint", 5: "multilinestring"}


def source_of(flavor: str) -> Schema:
    return source_schema(
        flavor,
        table=STRING.or_null(),
        server_id=INT64,
        gtid=STRING.or_null(),
        file=STRING,
        pos=INT64,
        row=INT32,
        thread=INT64.or_null(),
        query=STRING.or_null(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A column, wherever its description comes from."""

    name: str
    kind: ColumnType
    is_required: bool


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    name: str
    mapped: Mapped
    is_required: bool


@dataclass(frozen=True, slots=True)
class CapturedTable:
    database: str
    table: str
    shape: TableShape
    columns: tuple[CapturedColumn, ...]

    def row(self, values: Mapping[str, Any]) -> Row:
        fields: dict[str, object] = {}
        for column in self.columns:
            value = values[column.name]
            if value is not None:
                try:
                    value = column.mapped.convert(value)
                except ZeroDate:
                    value = None
            # The library has None for dates such as 0000-00-00.
            fields[column.name] = column.mapped.fallback if value is None and column.is_required else value
        return fields


class Tables:
    def __init__(self, config: MysqlCdcConfig, flavor: str) -> None:
        self._config = config
        self._source = source_of(flavor)
        # The description of each table, and what was made of it: schemas are made once.
        self._known: dict[tuple[str, str], tuple[object, CapturedTable]] = {}

    def described(self, event: TableMapEvent) -> CapturedTable | None:
        """The table of the row events that follow. None for a table that is left out."""
        if not self._config.covers_table(event.schema, event.table):
            return None
        if not all(column.name for column in event.columns):
            raise ValueError(
                f"the binlog does not name the columns of {event.schema}.{event.table}: it was written before "
                "binlog_row_metadata=FULL. Stop the connector, and reset its offsets for a new snapshot"
            )
        key = _key_of(event)
        return self._captured(event.schema, event.table, _columns_of(event), key)

    def in_catalog(self, connection: pymysql.Connection[Any]) -> list[tuple[str, str]]:
        with connection.cursor() as cursor:
            cursor.execute(TABLES)
            found = [(database, table) for database, table in cursor.fetchall() if database not in SYSTEM_DATABASES]
        return [each for each in found if self._config.covers_table(*each)]

    def from_catalog(self, connection: pymysql.Connection[Any], database: str, table: str) -> CapturedTable:
        with connection.cursor() as cursor:
            cursor.execute(COLUMNS, (database, table))
            columns = [_from_row(row) for row in cursor.fetchall()]
            cursor.execute(KEY, (database, table))
            key = tuple(row[0] for row in cursor.fetchall())
        return self._captured(database, table, columns, key)

    def _captured(
        self, database: str, table: str, described: Iterable[Described], key: tuple[str, ...]
    ) -> CapturedTable:
        columns = tuple(described)
        known = self._known.get((database, table))
        if known is not None and known[0] == (columns, key):
            return known[1]
        captured = []
        for column in columns:
            if not self._config.covers_column(database, table, column.name):
                continue
            found = mapped(column.kind, self._config)
            if found is None:
                _log.warning("%s.%s.%s has a type that is not captured", database, table, column.name)
                continue
            captured.append(CapturedColumn(column.name, found, column.is_required))
        names = {column.name for column in captured}
        shape = TableShape(
            topic=re.sub(r"[^A-Za-z0-9._-]", "_", f"{self._config.topic_prefix}.{database}.{table}"),
            columns=tuple(
                Field(each.name, each.mapped.schema if each.is_required else each.mapped.schema.or_null())
                for each in captured
            ),
            key=tuple(name for name in key if name in names),
            source=self._source,
        )
        made = CapturedTable(database, table, shape, tuple(captured))
        self._known[database, table] = (columns, key), made
        return made


def _key_of(event: TableMapEvent) -> tuple[str, ...]:
    metadata = event.optional_metadata
    indexes = metadata.simple_primary_key_list or list(metadata.primary_keys_with_prefix)
    return tuple(event.columns[int(index)].name for index in indexes)


def _columns_of(event: TableMapEvent) -> Iterable[Described]:
    shapes = iter(event.optional_metadata.geometry_type_list)
    for index, column in enumerate(event.columns):
        shape = next(shapes, 0) if column.type == FIELD_TYPE.GEOMETRY else 0
        is_nullable = bool(event.null_bitmask[index // 8] & (1 << index % 8))
        yield Described(name=column.name, kind=_kind_of(column, shape), is_required=not is_nullable)


def _kind_of(column: Any, shape: int) -> ColumnType:  # noqa: ANN401 (a class of the library)
    if column.type in CHARACTERS:
        is_binary = column.character_set_name == "binary"
        return ColumnType(name="blob" if is_binary else "text")
    if column.type == FIELD_TYPE.GEOMETRY:
        return ColumnType(name=GEOMETRIES.get(shape, "geometry"))
    return ColumnType(
        name=NAMES.get(column.type, "unknown"),
        unsigned=bool(column.unsigned),
        precision=getattr(column, "precision", getattr(column, "bits", 0)),
        scale=getattr(column, "decimals", getattr(column, "fsp", 0)),
        labels=tuple(value for value in (column.enum_values or column.set_values or ()) if value),
    )


def _from_row(row: tuple[Any, ...]) -> Described:
    name, data_type, column_type, nullable, _, precision, scale, time_precision = row
    kind = data_type.lower()
    if kind in ("tinytext", "mediumtext", "longtext", "char", "varchar", "inet4", "inet6", "uuid"):
        kind = "text"
    elif kind in ("tinyblob", "mediumblob", "longblob", "binary", "varbinary"):
        kind = "blob"
    is_number = kind in ("decimal", "bit")
    return Described(
        name=name,
        kind=ColumnType(
            name=kind,
            unsigned="unsigned" in column_type.lower(),
            precision=int(precision or 0) if is_number else 0,
            scale=int((scale if is_number else time_precision) or 0),
            labels=_labels(column_type) if kind in ("enum", "set") else (),
        ),
        is_required=nullable == "NO",
    )


def _labels(column_type: str) -> tuple[str, ...]:
    """The members of enum('a','b'). A quote inside is doubled."""
    return tuple(each.replace("''", "'") for each in re.findall(r"'((?:[^']|'')*)'", column_type))
