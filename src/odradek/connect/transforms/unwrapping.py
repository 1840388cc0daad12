"""Debezium's ExtractNewRecordState: the row after a change instead of the change event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from odradek.connect.options import option
from odradek.connect.records import STRING, Field, Header, Record, Schema
from odradek.connect.transforms.parts import (
    CannotTransform,
    NullOptions,
    SchemaCache,
    as_struct,
    field_value,
    plain_struct,
)

DELETED = Field("__deleted", STRING.or_null())
ENVELOPE = ".Envelope"
# Fields that are found without the name of their struct. All others are in `source`.
_STRUCTS: dict[str, str | None] = {
    "id": "transaction",
    "data_collection_order": "transaction",
    "total_order": "transaction",
    "op": None,
    "ts_ms": None,
    "ts_us": None,
    "ts_ns": None,
}


def is_change_event(record: Record) -> bool:
    schema = record.value_schema
    return schema is not None and schema.name is not None and schema.name.endswith(ENVELOPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractNewRecordStateOptions(NullOptions):
    delete_tombstone_handling_mode: Literal[
        "tombstone", "drop", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"
    ] = option(
        "What becomes of a delete and its tombstone. tombstone: the delete becomes one. drop: both are dropped. "
        "rewrite: the old row with __deleted=true. rewrite-with-tombstone: the same, and the tombstone stays.",
        default="tombstone",
    )
    route_by_field: str = option("A field whose value is the new topic.", default="", importance="LOW")
    add_fields: list[str] = option("Fields of the event to add, as op, source.lsn or field:name.", default=[])
    add_fields_prefix: str = option("Goes before the names of added fields.", default="__", importance="LOW")
    add_headers: list[str] = option("Fields of the event to add as headers.", default=[])
    add_headers_prefix: str = option("Goes before the names of added headers.", default="__", importance="LOW")
    drop_fields_header_name: str | None = option(
        "A header with a list of fields to remove.", default=None, importance="LOW"
    )
    drop_fields_from_key: bool = option("Remove them from the key too.", default=False, importance="LOW")
    drop_fields_keep_schema_compatible: bool = option("Remove only optional fields.", default=True, importance="LOW")


@dataclass(frozen=True, slots=True)
class Reference:
    """A field of a change event, and the name under which it is added."""

    struct: str | None
    field: str
    name: str

    @classmethod
    def of(cls, text: str, prefix: str) -> Reference:
        path, colon, new = text.partition(":")
        if ":" in new or (colon and not new):
            raise ValueError(f"{text!r} is not a field, as op, source.lsn or field:name")
        outer, dot, inner = path.partition(".")
        field = inner.partition(".")[0] if dot else outer
        struct = outer if dot else _STRUCTS.get(field, "source")
        return cls(struct, field, prefix + (new or (f"{struct}_{field}" if dot else field)))

    def found(self, schema: Schema, event: Mapping[str, Any]) -> tuple[Schema, object] | None:
        """The field's schema and value; None if the event has no such field."""
        parent, values = schema, event
        if self.struct is not None:
            of_struct = schema.of(self.struct)
            if of_struct is None:
                raise CannotTransform(f"a change event has no field {self.struct!r}")
            inner = of_struct.of(self.field)
            if inner is not None:
                parent, values = of_struct, event.get(self.struct) or {}
        known = parent.of(self.field)
        if known is None:
            return None
        return replace(known, optional=True, default=None), values.get(self.field)


class ExtractNewRecordState:
    """Unwraps change events. Other records stay as they are."""

    Config: ClassVar[type] = ExtractNewRecordStateOptions

    def __init__(self, config: ExtractNewRecordStateOptions) -> None:
        self._config = config
        self._mode = config.delete_tombstone_handling_mode
        self._fields = [Reference.of(text, config.add_fields_prefix) for text in config.add_fields]
        self._headers = [Reference.of(text, config.add_headers_prefix) for text in config.add_headers]
        self._rewrites = self._mode.startswith("rewrite")
        self._flagged = SchemaCache(lambda schema: plain_struct(schema, (*schema.fields, DELETED)))
        self._required = SchemaCache(lambda schema: plain_struct(schema, schema.fields))
        self._extended: dict[tuple[int, int], tuple[Schema, Schema, Schema]] = {}

    def apply(self, record: Record) -> Record | None:
        if record.value is None:
            if self._mode != "rewrite-with-tombstone":
                return None
            deleted = [Header(each.name, "d", STRING) for each in self._headers if each.field == "op"]
            return replace(record, headers=(*record.headers, *deleted))
        schema = record.value_schema
        if schema is None or not is_change_event(record):
            return record
        event = as_struct(schema, record.value, "change events")
        record = replace(record, headers=record.headers + self._added_headers(schema, event))
        if event.get("after") is not None:
            return self._changed(record, schema, event)
        # A truncate has no row at all.
        return None if event.get("before") is None else self._deleted(record, schema, event)

    def _changed(self, record: Record, schema: Schema, event: Mapping[str, Any]) -> Record:
        row, row_schema = self._row(schema, event, "after", deleted="false")
        record = self._routed(replace(record, value=row, value_schema=row_schema), row)
        return self._without_dropped(self._with_added(record, schema, event))

    def _deleted(self, record: Record, schema: Schema, event: Mapping[str, Any]) -> Record | None:
        if self._mode == "drop":
            return None
        if self._rewrites:
            row, row_schema = self._row(schema, event, "before", deleted="true")
            record = replace(record, value=row, value_schema=row_schema)
        else:
            tombstone = None if self._mode == "delete-to-tombstone" else schema.of("after")
            record = replace(record, value=None, value_schema=tombstone)
        record = self._without_dropped(self._routed(record, event["before"]))
        return record if record.value is None else self._with_added(record, schema, event)

    def _row(
        self, schema: Schema, event: Mapping[str, Any], which: str, *, deleted: str
    ) -> tuple[dict[str, Any], Schema]:
        of_row = schema.of(which)
        if of_row is None:
            raise CannotTransform(f"a change event has no field {which!r}")
        values = as_struct(of_row, event[which], "change events")
        if not self._rewrites:
            return {field.name: values.get(field.name) for field in of_row.fields}, of_row
        defaults = self._config.replace_null_with_default
        row = {field.name: field_value(values, field, defaults=defaults) for field in of_row.fields}
        return row | {DELETED.name: deleted}, self._flagged(of_row)

    def _routed(self, record: Record, row: Mapping[str, Any]) -> Record:
        name = self._config.route_by_field
        if not name:
            return record
        topic = row.get(name)
        if not isinstance(topic, str):
            raise CannotTransform(f"the field {name!r} is {topic!r}, which is not a topic")
        return replace(record, topic=topic)

    def _added_headers(self, schema: Schema, event: Mapping[str, Any]) -> tuple[Header, ...]:
        found = [(each.name, each.found(schema, event)) for each in self._headers]
        return tuple(Header(name, typed[1], typed[0]) for name, typed in found if typed is not None)

    def _with_added(self, record: Record, schema: Schema, event: Mapping[str, Any]) -> Record:
        row_schema: Any = record.value_schema
        if not self._fields:
            return replace(record, value_schema=self._required(row_schema))
        found = [(each.name, each.found(schema, event)) for each in self._fields]
        added = [(name, typed) for name, typed in found if typed is not None]
        known = self._extended.get((id(row_schema), id(schema)))
        if known is None:
            fields = tuple(Field(name, of_field) for name, (of_field, _) in added)
            known = (row_schema, schema, plain_struct(row_schema, row_schema.fields + fields))
            if len(self._extended) > 1_000:
                self._extended.clear()
            self._extended[id(row_schema), id(schema)] = known
        row: Any = record.value
        return replace(record, value={**row, **{name: value for name, (_, value) in added}}, value_schema=known[2])

    def _without_dropped(self, record: Record) -> Record:
        header = self._config.drop_fields_header_name
        names = record.header(header) if header else None
        if not isinstance(names, list) or not names:
            return record
        if self._config.drop_fields_from_key and record.key_schema is not None and isinstance(record.key, Mapping):
            schema, key = self._dropped(record.key_schema, record.key, names)
            record = replace(record, key=key, key_schema=schema)
        if record.value_schema is None or not isinstance(record.value, Mapping):
            return record
        schema, value = self._dropped(record.value_schema, record.value, names)
        return replace(record, value=value, value_schema=schema)

    def _dropped(
        self, schema: Schema, value: Mapping[str, Any], names: list[object]
    ) -> tuple[Schema, Mapping[str, Any]]:
        only_optional = self._config.drop_fields_keep_schema_compatible
        gone = {
            field.name
            for field in schema.fields
            if field.name in names and (field.schema.optional or not only_optional)
        }
        if not gone:
            return schema, value
        left = plain_struct(schema, tuple(field for field in schema.fields if field.name not in gone))
        return left, {field.name: field_value(value, field, defaults=True) for field in left.fields}
