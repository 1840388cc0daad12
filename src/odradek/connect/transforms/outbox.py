"""Debezium's outbox EventRouter: rows of an outbox table as the events that they describe."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import msgspec

from odradek.connect.options import option
from odradek.connect.records import STRING, Field, Header, Kind, Record, Schema, struct
from odradek.connect.transforms.java_regex import is_java_pattern
from odradek.connect.transforms.json_payloads import NotUniform, payload_schema, payload_value
from odradek.connect.transforms.parts import CannotTransform, as_struct, field_value
from odradek.connect.transforms.routing import RegexRouter, RegexRouterOptions
from odradek.connect.transforms.unwrapping import is_change_event

_log = logging.getLogger("odradek.connect")

_PLACEMENTS = ("header", "envelope", "partition")
# Debezium's types of times as integers, and how many of them make a millisecond.
_PER_MS = {
    "io.debezium.time.Timestamp": 1,
    "io.debezium.time.MicroTimestamp": 1_000,
    "io.debezium.time.NanoTimestamp": 1_000_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRouterOptions:
    table_field_event_id: str = option("The column with the event's id.", default="id", importance="LOW")
    table_field_event_key: str = option("The column with the event's key.", default="aggregateid", importance="LOW")
    table_field_event_type: str = option("The column with the event's type.", default="type", importance="LOW")
    table_field_event_payload: str = option("The column with the payload.", default="payload", importance="LOW")
    table_field_event_timestamp: str | None = option("The column with the record's timestamp.", default=None)
    table_field_event_schema_version: str | None = option(
        "The column with the schema's version.", default=None, importance="LOW"
    )
    table_fields_additional_placement: list[str] = option(
        "More columns, as column:header, column:envelope:name or column:partition.", default=[], importance="HIGH"
    )
    table_fields_additional_error_on_missing: bool = option("Whether such a column must exist.", default=True)
    table_op_invalid_behavior: Literal["warn", "error", "fatal"] = option(
        "What an update of the table does: a log line, or it fails.", default="warn"
    )
    table_expand_json_payload: bool = option("Read the payload as JSON, and infer its schema.", default=False)
    table_json_payload_null_behavior: Literal["ignore", "optional_bytes"] = option(
        "What becomes of nulls in such a payload.", default="ignore"
    )
    route_by_field: str = option("The column that decides the topic.", default="aggregatetype", importance="HIGH")
    route_topic_regex: str = option(
        "A pattern for that column.", default="(?<routedByValue>.*)", importance="LOW", check=is_java_pattern
    )
    route_topic_replacement: str = option(
        "The topic, with groups of the pattern.", default="outbox.event.${routedByValue}", importance="HIGH"
    )
    route_tombstone_on_empty_payload: bool = option(
        "An empty payload makes a tombstone.", default=False, importance="HIGH"
    )


@dataclass(frozen=True, slots=True)
class _Placed:
    column: str
    placement: str
    name: str

    @classmethod
    def of(cls, text: str) -> _Placed:
        parts = [part.strip() for part in text.split(":")]
        if len(parts) not in (2, 3) or parts[1].lower() not in _PLACEMENTS:
            raise ValueError(
                f'"table.fields.additional.placement" has {text!r}, but it needs column:header, column:envelope:name '
                "or column:partition"
            )
        return cls(parts[0], parts[1].lower(), parts[-1] if len(parts) == 3 else parts[0])


class EventRouter:
    """Routes the rows of an outbox table. Deletes are dropped, and records that are no change events stay."""

    Config: ClassVar[type] = EventRouterOptions

    def __init__(self, config: EventRouterOptions) -> None:
        self._config = config
        self._router = RegexRouter(
            RegexRouterOptions(regex=config.route_topic_regex, replacement=config.route_topic_replacement)
        )
        self._placed = [_Placed.of(text) for text in config.table_fields_additional_placement]
        self._has_envelope = any(each.placement == "envelope" for each in self._placed)

    def apply(self, record: Record) -> Record | None:
        if record.value is None:
            return None
        schema = record.value_schema
        if schema is None or not is_change_event(record):
            return record
        event = as_struct(schema, record.value, "outbox events")
        if event.get("op") in ("d", "u"):
            self._refuse(str(event["op"]))
            return None
        of_row = schema.of("after")
        if of_row is None:
            raise CannotTransform("an outbox event has no field 'after'")
        row = as_struct(of_row, event.get("after"), "outbox events")
        return self._routed(record, event, _Row(of_row, row))

    def _refuse(self, operation: str) -> None:
        if operation == "d":
            return
        told = "an outbox table was updated: its rows may only be inserted and deleted"
        if self._config.table_op_invalid_behavior == "fatal":
            raise CannotTransform(told)
        _log.log(logging.WARNING if self._config.table_op_invalid_behavior == "warn" else logging.ERROR, told)

    def _routed(self, record: Record, event: Mapping[str, Any], row: _Row) -> Record:
        config = self._config
        payload_type, payload = self._payload(row)
        id_schema, event_id = row.field(config.table_field_event_id, "event-id")
        headers = [*record.headers, Header("id", event_id, id_schema)]
        headers += [Header(each.name, value, known) for each, known, value in self._columns(row, "header")]
        partitions = [value for _, _, value in self._columns(row, "partition")]
        _, topic = row.field(config.route_by_field, "route-by")
        if not isinstance(topic, str):
            raise CannotTransform(f"the column {config.route_by_field!r} is {topic!r}, which is not a topic")
        is_empty = payload is None or not str(payload).strip()
        if is_empty and config.route_tombstone_on_empty_payload:
            payload_type, payload = None, None
        elif self._has_envelope:
            payload_type, payload = self._enveloped(row, topic, payload_type, payload)
        key_schema = row.schema.of(config.table_field_event_key)
        made = replace(
            record,
            topic=topic,
            partition=partitions[-1] if partitions else None,
            key=None if key_schema is None else row.field(config.table_field_event_key, "event-key")[1],
            key_schema=key_schema or STRING,
            value=payload,
            value_schema=payload_type,
            timestamp_ms=self._timestamp(event, row),
            headers=tuple(headers),
        )
        return self._router.apply(made)

    def _payload(self, row: _Row) -> tuple[Schema | None, Any]:
        schema, payload = row.field(self._config.table_field_event_payload, "payload")
        return self._expanded(schema, payload) if self._config.table_expand_json_payload else (schema, payload)

    def _columns(self, row: _Row, placement: str) -> list[tuple[_Placed, Schema, Any]]:
        found = []
        for each in self._placed:
            if each.placement != placement:
                continue
            if row.schema.of(each.column) is None and not self._config.table_fields_additional_error_on_missing:
                continue
            found.append((each, *row.field(each.column, "additional")))
        return found

    def _enveloped(self, row: _Row, topic: str, payload_type: Schema | None, payload: object) -> tuple[Schema, object]:
        columns = self._columns(row, "envelope")
        fields = [("payload", payload_type or STRING.or_null()), *((each.name, known) for each, known, _ in columns)]
        schema = struct(fields, name=_schema_name(row.schema, topic))
        column = self._config.table_field_event_schema_version
        if column is not None:
            schema = replace(schema, version=row.field(column, "schema-version")[1])
        return schema, {"payload": payload, **{each.name: value for each, _, value in columns}}

    def _timestamp(self, event: Mapping[str, Any], row: _Row) -> int | None:
        column = self._config.table_field_event_timestamp
        if column is None:
            return event.get("ts_ms")
        schema, value = row.field(column, "timestamp")
        if value is None:
            return event.get("ts_ms")
        if schema.name not in _PER_MS:
            raise CannotTransform(f"the column {column!r} has the type {schema.name or schema.kind}, which is no time")
        return int(value) // _PER_MS[schema.name]

    def _expanded(self, schema: Schema, payload: object) -> tuple[Schema, object]:
        """A payload that is not JSON stays as it is."""
        if not isinstance(payload, str) or not payload.startswith(("{", "[")):
            return schema, payload
        try:
            told = msgspec.json.decode(payload)
            nulls = self._config.table_json_payload_null_behavior == "optional_bytes"
            inferred = payload_schema(self._config.table_field_event_payload, told, nulls=nulls)
        except (NotUniform, msgspec.DecodeError) as wrong:
            _log.warning("the payload of an outbox event cannot be expanded: %s", wrong)
            return schema, payload
        if inferred is None or inferred.kind is not Kind.STRUCT:
            return schema, payload
        return inferred, payload_value(told, inferred)


@dataclass(frozen=True, slots=True)
class _Row:
    schema: Schema
    values: Mapping[str, Any]

    def field(self, name: str, role: str) -> tuple[Schema, Any]:
        known = self.schema.of(name)
        if known is None:
            raise CannotTransform(f"the outbox table has no {role} column {name!r}")
        return known, field_value(self.values, Field(name, known), defaults=True)


def _schema_name(schema: Schema, topic: str) -> str:
    if schema.name is None:
        return topic
    before, dot, last = schema.name.rpartition(".")
    return f"{before}{dot}{topic}.{last}"
