"""Rows to Arrow columns. Types of a table are fixed by its first rows; later rows may add columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]
ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)


class DoesNotFit(ValueError):
    """A value that cannot be stored in its column."""


def stored_type(kind: pa.DataType) -> pa.DataType:
    """The type that all three formats can store for a type of Arrow."""
    if pa.types.is_int8(kind) or pa.types.is_int16(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_time(kind):
        return pa.string()  # Delta Lake has no type for a time of day
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(kind.field(i).name, stored_type(kind.field(i).type)) for i in range(len(kind))])
    if pa.types.is_map(kind):
        return pa.map_(stored_type(kind.key_type), stored_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", stored_type(kind.value_type)))
    return kind


class Columns:
    """The columns of a table and of the rows that wait to be appended to it.

    A column of the table keeps its type. The type of a waiting column may still grow, from integer to double.
    """

    def __init__(self, stored: pa.Schema | None) -> None:
        self._stored = {column.name: stored_type(column.type) for column in stored or ()}
        self._waiting: dict[str, pa.DataType] = {}

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(*pair) for pair in (self._stored | self._waiting).items()])

    def stored(self) -> None:
        """The waiting columns are in the table now."""
        self._stored |= self._waiting
        self._waiting = {}

    def arranged(self, rows: Sequence[Row], declared: Mapping[str, pa.DataType]) -> pa.Table:
        """Rows as columns; `declared` are types of columns that a schema gives. Raises DoesNotFit."""
        names = dict.fromkeys(name for row in rows for name in row)
        waiting = dict(self._waiting)
        found = {}
        for name in names:
            values = [row.get(name) for row in rows]
            if all(value is None for value in values) and name not in declared:
                continue  # its type is not known yet
            found[name] = _array(name, values, self._type(name, values, declared, waiting))
            if name not in self._stored:
                waiting[name] = _wider(name, waiting.get(name), found[name].type)
        self._waiting = waiting
        return pa.table(found) if found else pa.table({"": pa.nulls(len(rows))}).select([])

    def typed(self, rows: pa.Table) -> pa.Table:
        """Columns that have types already, with the types that are stored. Raises DoesNotFit."""
        found = {}
        for field in rows.schema:
            kind = self._stored.get(field.name, stored_type(field.type))
            try:
                found[field.name] = rows.column(field.name).cast(kind)
            except ARROW_ERRORS as failed:
                raise DoesNotFit(
                    f"the column {field.name!r} is {field.type}, but {kind} in the table: {failed}"
                ) from None
            if field.name not in self._stored:
                self._waiting[field.name] = kind
        return pa.table(found)

    def _type(
        self, name: str, values: list[Any], declared: Mapping[str, pa.DataType], waiting: dict[str, pa.DataType]
    ) -> pa.DataType:
        if name in self._stored:
            return self._stored[name]
        if name in declared:
            return stored_type(declared[name])
        try:
            kind = stored_type(pa.array(values).type)
        except ARROW_ERRORS as failed:
            raise DoesNotFit(f"the field {name!r} has values of several types: {failed}") from None
        known = waiting.get(name)
        # Integers fit into a column of doubles.
        return known if known is not None and pa.types.is_floating(known) and pa.types.is_integer(kind) else kind

    def complete(self, tables: Sequence[pa.Table]) -> pa.Table:
        """One table with all columns; values that rows do not have are null."""
        schema = self.schema
        return pa.concat_tables([_completed(table, schema) for table in tables])


def _array(name: str, values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind) and any(isinstance(value, float) and value != int(value) for value in values):
        raise DoesNotFit(f"the field {name!r} has a value with a fraction, but its column is {kind}")
    try:
        return pa.array(values, kind)
    except ARROW_ERRORS as failed:
        raise DoesNotFit(f"the field {name!r} does not fit its column, which is {kind}: {failed}") from None


def _wider(name: str, known: pa.DataType | None, kind: pa.DataType) -> pa.DataType:
    if known is None:
        return kind
    try:
        merged = pa.unify_schemas([pa.schema([(name, known)]), pa.schema([(name, kind)])], promote_options="permissive")
    except ARROW_ERRORS:
        raise DoesNotFit(f"the field {name!r} was {known} before, and is {kind} now") from None
    return merged.field(0).type


def _completed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    have = set(table.column_names)
    columns = [
        table.column(field.name).cast(field.type) if field.name in have else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
