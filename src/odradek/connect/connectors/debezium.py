"""Debezium's change events: envelope, key, tombstones and names, for every connector that captures changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
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
        return struct(
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one row, and what the database says about it."""

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

    def records(self, change: Change, partition: Partition, before: Offset | None, after: Offset) -> Iterator[Record]:
        """The records of one change, one to four. Only the last one moves the offset from `before` to `after`.

        A change of the primary key is a delete of the old key and a creation of the new one, as in Debezium.
        """
        events = list(self._events(change))
        for index, (key, value, headers) in enumerate(events):
            is_last = index == len(events) - 1
            offset = after if is_last else (before or {})
            yield Record(
                topic=change.table.topic,
                key=key,
                key_schema=None if key is None else change.table.key_schema,
                value=value,
                value_schema=None if value is None else change.table.envelope_schema,
                headers=headers,
                place=SourcePlace(partition, offset),
            )

    def _events(self, change: Change) -> Iterator[tuple[Row | None, Row | None, tuple[Header, ...]]]:
        table = change.table
        old, new = _key(table, change.before), _key(table, change.after)
        if change.operation == "u" and old is not None and old != new:
            moved_to = (Header(NEW_KEY, new, table.key_schema),)
            moved_from = (Header(OLD_KEY, old, table.key_schema),)
            yield old, self._envelope(replace(change, operation="d", after=None)), moved_to
            if self._tombstones:
                yield old, None, ()
            yield new, self._envelope(replace(change, operation="c", before=None)), moved_from
            return
        yield (old if change.operation == "d" else new), self._envelope(change), ()
        if change.operation == "d" and self._tombstones and old is not None:
            yield old, None, ()

    def _envelope(self, change: Change) -> dict[str, Any]:
        now = self._clock_ns()
        return {
            "before": change.before,
            "after": change.after,
            "source": change.source,
            "transaction": None,
            "op": change.operation,
            "ts_ms": now // 1_000_000,
            "ts_us": now // 1_000,
            "ts_ns": now,
        }


def _key(table: TableShape, row: Row | None) -> Row | None:
    return {name: row[name] for name in table.key} if row is not None and table.key else None


BLOCK = replace(
    struct({"id": STRING, "total_order": INT64, "data_collection_order": INT64}, name="event.block"),
    version=1,
    optional=True,
)


def source_schema(connector: str, **fields: Schema) -> Schema:
    """The schema of `source`: the fields that all of Debezium's connectors have, then those of one connector."""
    common = {
        "version": STRING,
        "connector": STRING,
        "name": STRING,
        "ts_ms": INT64,
        "snapshot": STRING.or_null(),
        "db": STRING,
        "sequence": STRING.or_null(),
        "ts_us": INT64.or_null(),
        "ts_ns": INT64.or_null(),
    }
    return struct(common | fields, name=f"io.debezium.connector.{connector}.Source")
