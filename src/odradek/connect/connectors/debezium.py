"""Debezium's change events: envelope, key, tombstones and names, for every connector that captures changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from odradek.connect.records import (
    INT64,
    STRING,
    Field,
    Header,
    Offset,
    Partition,
    Record,
    Schema,
    SourcePlace,
    struct,
)

Operation = Literal["c", "u", "d", "r", "t"]
"""Create, update, delete, read by a snapshot, and truncate (of a table, without a row)."""

Row = Mapping[str, Any]

OLD_KEY = "__debezium.oldkey"
NEW_KEY = "__debezium.newkey"


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """A captured table. `topic` is also the prefix of its schemas' names. `source` describes the field `source`.

    Keep one object for each shape: it makes its schemas once.
    """

    topic: str
    columns: tuple[Field, ...]
    key: tuple[str, ...]
    source: Schema

    @cached_property
    def key_schema(self) -> Schema:
        columns = {column.name: column.schema for column in self.columns}
        return struct({name: replace(columns[name], optional=False) for name in self.key}, name=f"{self.topic}.Key")

    @cached_property
    def envelope_schema(self) -> Schema:
        row = struct([(column.name, column.schema) for column in self.columns], name=f"{self.topic}.Value").or_null()
        envelope = struct(
            [
                ("before", row),
                ("after", row),
                ("source", self.source),
                ("transaction", BLOCK),
                ("op", STRING),
                ("ts_ms", INT64.or_null()),
                ("ts_us", INT64.or_null()),
                ("ts_ns", INT64.or_null()),
            ],
            name=f"{self.topic}.Envelope",
        )
        return replace(envelope, version=2)


@dataclass(slots=True, kw_only=True)
class Change:
    """One change of one row, and what the database says about it. Not frozen: there is one for each record."""

    table: TableShape
    operation: Operation
    before: Row | None
    after: Row | None
    source: Row


class ChangeEvents:
    """Makes records of changes."""

    def __init__(self, *, tombstones: bool = True, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._tombstones = tombstones
        self._clock_ns = clock_ns

    def records(
        self, change: Change, partition: Partition, after: Offset, order: Callable[[], Row] | None = None
    ) -> list[Record]:
        """The records of one change, one to three. Only the last one has a place, so that they are written together.

        `order` returns the field `transaction` of the next event. A change of the primary key is a delete of the old
        key and a creation of the new one, as in Debezium.
        """
        table, new = change.table, _key(change.table, change.after)
        old = _key(table, change.before) if change.before is not None and change.operation in "ud" else None
        if change.operation == "d":
            found = [self._event(change, old, order)]
            if old is not None and self._tombstones:
                found.append(Record(topic=table.topic, key=old, key_schema=table.key_schema))
        elif old is None or old == new:
            found = [self._event(change, new, order)]
        else:
            found = [self._event(replace(change, operation="d", after=None), old, order)]
            found[0].headers = (Header(NEW_KEY, new, table.key_schema),)
            if self._tombstones:
                moved = found[0].headers
                found.append(Record(topic=table.topic, key=old, key_schema=table.key_schema, headers=moved))
            found.append(self._event(replace(change, operation="c", before=None), new, order))
            found[-1].headers = (Header(OLD_KEY, old, table.key_schema),)
        found[-1].place = SourcePlace(partition, after)
        return found

    def _event(self, change: Change, key: Row | None, order: Callable[[], Row] | None) -> Record:
        table = change.table
        now = self._clock_ns()
        return Record(
            topic=table.topic,
            key=key,
            key_schema=None if key is None else table.key_schema,
            value={
                "before": change.before,
                "after": change.after,
                "source": change.source,
                "transaction": None if order is None else order(),
                "op": change.operation,
                "ts_ms": now // 1_000_000,
                "ts_us": now // 1_000,
                "ts_ns": now,
            },
            value_schema=table.envelope_schema,
        )


def _key(table: TableShape, row: Row | None) -> Row | None:
    return {name: row[name] for name in table.key} if row is not None and table.key else None


BLOCK = replace(
    struct({"id": STRING, "total_order": INT64, "data_collection_order": INT64}, name="event.block"),
    version=1,
    optional=True,
)


SNAPSHOT = replace(
    STRING,
    name="io.debezium.data.Enum",
    version=1,
    parameters={"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
    default="false",
    optional=True,
)


def named(schema: Schema, name: str, **parameters: str) -> Schema:
    """A schema with one of Debezium's names."""
    return replace(schema, name=f"io.debezium.{name}", version=1, parameters=parameters)


def source_schema(connector: str, **fields: Schema) -> Schema:
    """The schema of `source`: the fields that all of Debezium's connectors have, then those of one connector."""
    common = {
        "version": STRING,
        "connector": STRING,
        "name": STRING,
        "ts_ms": INT64,
        "snapshot": SNAPSHOT,
        "db": STRING,
        "sequence": STRING.or_null(),
        "ts_us": INT64.or_null(),
        "ts_ns": INT64.or_null(),
    }
    return replace(struct(common | fields, name=f"io.debezium.connector.{connector}.Source"), version=1)
