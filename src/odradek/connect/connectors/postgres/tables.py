"""Captured tables: how the values of a row become the fields of a change event."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from odradek.connect.connectors.debezium import Row, TableShape, source_schema
from odradek.connect.connectors.postgres.catalog import Catalog, TableColumn, TableName
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.pgoutput import UNCHANGED, Relation, Values
from odradek.connect.connectors.postgres.types import Mapped, Types
from odradek.connect.records import INT64, STRING, Field

_log = logging.getLogger("odradek.connect.postgres")

SOURCE = source_schema(
    "postgresql",
    schema=STRING,
    table=STRING,
    txId=INT64.or_null(),
    lsn=INT64.or_null(),
    xmin=INT64.or_null(),
)


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    index: int  # its place among the values of a row
    name: str
    mapped: Mapped
    is_required: bool
    unavailable: object


@dataclass(frozen=True, slots=True)
class CapturedTable:
    schema: str
    table: str
    shape: TableShape
    columns: tuple[CapturedColumn, ...]

    def row(self, values: Values, old: Values | None = None) -> Row:
        """The fields of a whole row. A value that an update did not change is taken from the old row, if known."""
        fields: dict[str, object] = {}
        for column in self.columns:
            value = values[column.index]
            if value is UNCHANGED and old is not None:
                value = old[column.index]
            if value is None:
                fields[column.name] = None
            elif isinstance(value, bytes):
                fields[column.name] = column.mapped.decode(value)
            else:
                fields[column.name] = column.unavailable
        return fields

    def identity(self, values: Values) -> Row:
        """The fields of an old row of which only the key is known. Required fields must have a value."""
        fields: dict[str, object] = {}
        for column in self.columns:
            value = values[column.index]
            known = isinstance(value, bytes)
            missing = column.mapped.fallback if column.is_required else None
            fields[column.name] = column.mapped.decode(value) if known else missing  # type: ignore[arg-type]
        return fields


class Tables:
    """The tables of a database that the options include, as of the last message about each."""

    def __init__(self, config: PostgresCdcConfig, catalog: Catalog) -> None:
        self._config = config
        self._catalog = catalog
        self._types = Types(config, catalog)
        self._known: dict[int, CapturedTable | None] = {}

    def learn(self, relation: Relation) -> None:
        """A table as the next changes have it. Its key and its required columns come from the catalog of today."""
        if not self._config.covers_table(relation.schema, relation.table):
            self._known[relation.oid] = None
            return
        required = {column.name for column in self._catalog.columns(relation.oid) if column.is_required}
        columns = [
            TableColumn(column.name, column.type_oid, column.type_modifier, column.name in required)
            for column in relation.columns
        ]
        name = TableName(relation.oid, relation.schema, relation.table)
        self._known[relation.oid] = self._captured(name, columns)

    def of(self, oid: int) -> CapturedTable | None:
        """None for a table that the options leave out."""
        return self._known[oid]

    def read_from_catalog(self, name: TableName) -> tuple[CapturedTable, Sequence[str]]:
        """The table, and the columns that a snapshot selects."""
        columns = self._catalog.columns(name.oid)
        return self._captured(name, columns), [column.name for column in columns]

    def _captured(self, name: TableName, columns: Iterable[TableColumn]) -> CapturedTable:
        captured = []
        for index, column in enumerate(columns):
            if not self._config.covers_column(name.schema, name.table, column.name):
                continue
            mapped = self._types.mapped(column.type_oid, column.type_modifier)
            if mapped is None:
                _log.warning(
                    "%s.%s.%s has a type that is not captured; include.unknown.datatypes=true includes it as bytes",
                    name.schema,
                    name.table,
                    column.name,
                )
                continue
            unavailable = self._types.unavailable(mapped.schema)
            captured.append(CapturedColumn(index, column.name, mapped, column.is_required, unavailable))
        names = {column.name for column in captured}
        shape = TableShape(
            topic=re.sub(r"[^A-Za-z0-9._-]", "_", f"{self._config.topic_prefix}.{name.schema}.{name.table}"),
            columns=tuple(
                Field(each.name, each.mapped.schema if each.is_required else each.mapped.schema.or_null())
                for each in captured
            ),
            key=tuple(column for column in self._catalog.key(name.oid) if column in names),
            source=SOURCE,
        )
        return CapturedTable(name.schema, name.table, shape, tuple(captured))
