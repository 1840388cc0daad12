"""Captured tables: how the values of a row become the fields of a change event."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from odradek import __version__
from odradek.connect.connectors.debezium import TableShape, source_schema
from odradek.connect.connectors.postgres.catalog import Catalog, TableColumn, TableName
from odradek.connect.connectors.postgres.config import PostgresCdcConfig
from odradek.connect.connectors.postgres.pgoutput import UNCHANGED, Fields, Plan, Relation
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


def source_of(config: PostgresCdcConfig, schema: str, table: str, at_us: int, snapshot: str) -> dict[str, Any]:
    """The field `source` of an event."""
    return {
        "version": __version__,
        "connector": "postgresql",
        "name": config.topic_prefix,
        "ts_ms": at_us // 1_000,
        "snapshot": snapshot,
        "db": config.database_dbname,
        "sequence": None,
        "ts_us": at_us,
        "ts_ns": at_us * 1_000,
        "schema": schema,
        "table": table,
        "txId": None,
        "lsn": None,
        "xmin": None,
    }


@dataclass(frozen=True, slots=True)
class CapturedColumn:
    name: str
    mapped: Mapped
    is_required: bool
    unavailable: object


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """`plan` has an entry for each column of the table, `columns` has the captured ones."""

    schema: str
    table: str
    shape: TableShape
    columns: tuple[CapturedColumn, ...]
    plan: Plan

    def fields(self, values: Sequence[bytes | None]) -> Fields:
        """The values of a selected row."""
        return {
            name: None if value is None else decode(value)
            for (name, decode), value in zip(self.plan, values, strict=True)
            if name is not None
        }

    def completed(self, fields: Fields, old: Fields | None) -> Fields:
        """A value that an update did not change is taken from the old row, if all of it is known."""
        for column in self.columns:
            if fields[column.name] is UNCHANGED:
                fields[column.name] = column.unavailable if old is None else old[column.name]
        return fields

    def identity(self, fields: Fields) -> Fields:
        """An old row of which only the key is known. Required fields must have a value."""
        for column in self.columns:
            if column.is_required and fields[column.name] is None:
                fields[column.name] = column.mapped.fallback
        return fields


class Tables:
    """The tables of a database that the options include, as of the last message about each."""

    def __init__(self, config: PostgresCdcConfig, catalog: Catalog) -> None:
        self._config = config
        self._catalog = catalog
        self._types = Types(config, catalog)
        self._known: dict[int, CapturedTable | None] = {}
        # The table of signals, as soon as a signal has come.
        self.signals_oid: int | None = None
        self.signals_plan: Plan = ()

    def learn(self, relation: Relation) -> None:
        """A table as the next changes have it. Its key, its defaults and its required columns are those of today."""
        if f"{relation.schema}.{relation.table}" == self._config.signal_data_collection:
            self.signals_oid = relation.oid
            self.signals_plan = [(column.name, bytes.decode) for column in relation.columns]
        if not self._config.covers_table(relation.schema, relation.table):
            self._known[relation.oid] = None
            return
        today = {column.name: column for column in self._catalog.columns(relation.oid)}
        columns = []
        for column in relation.columns:
            told = TableColumn(column.name, column.type_oid, column.type_modifier, is_required=False)
            if (now := today.get(column.name)) is not None:
                told = replace(told, is_required=now.is_required, default=now.default)
            columns.append(told)
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
        plan: list[tuple[str | None, Callable[[bytes], Any]]] = []
        for column in columns:
            plan.append((None, bytes))
            if not self._config.covers_column(name.schema, name.table, column.name):
                continue
            mapped = self._types.with_default(column)
            if mapped is None:
                _log.warning(
                    "%s.%s.%s has a type that is not captured; include.unknown.datatypes=true includes it as bytes",
                    name.schema,
                    name.table,
                    column.name,
                )
                continue
            unavailable = self._types.unavailable(mapped.schema)
            captured.append(CapturedColumn(column.name, mapped, column.is_required, unavailable))
            plan[-1] = (column.name, mapped.decode)
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
        return CapturedTable(name.schema, name.table, shape, tuple(captured), plan)
