"""Records and transforms. Kafka's and Debezium's own classes gave the results in transforms.golden.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from odradek.connect.converters.json_envelope import JsonConverter, JsonOptions
from odradek.connect.records import (
    BOOLEAN,
    BYTES,
    DATES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIMES,
    TIMESTAMPS,
    Header,
    Record,
    Schema,
    SourcePlace,
    TopicPlace,
    array,
    decimal,
    mapping,
    struct,
)

GOLDEN = Path(__file__).parent / "transforms.golden.json"
KAFKA = "org.apache.kafka.connect.transforms."
DEBEZIUM = "io.debezium.transforms."
CONVERTER = JsonConverter(JsonOptions(replace_null_with_default=False), is_key=False)


@dataclass(frozen=True, slots=True)
class Case:
    type: str
    options: Mapping[str, str]
    record: Record
    sink: bool = False
    name: str = field(default="")


def shown(record: Record | None) -> dict[str, Any] | None:
    """A record as JSON, with the schemas of its parts."""
    if record is None:
        return None
    return {
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp_ms,
        "key": _envelope(record.key_schema, record.key),
        "value": _envelope(record.value_schema, record.value),
        "headers": [[header.key, _envelope(header.schema, header.value)] for header in record.headers],
    }


def _envelope(schema: Schema | None, value: object) -> object:
    data = CONVERTER.encode("t", schema, value)
    return None if data is None else json.loads(data)


PERSON = struct(
    {
        "id": INT32,
        "name": STRING.or_null(),
        "score": replace(FLOAT64, default=1.5, optional=True),
        "tags": array(STRING).or_null(),
        "address": struct({"city": STRING, "zip": INT16.or_null()}, name="Address").or_null(),
    },
    name="Person",
)
ADA = {"id": 7, "name": "Ada", "score": None, "tags": ["x"], "address": {"city": "London", "zip": None}}
BARE = {"id": 7, "name": None, "score": None, "tags": None, "address": None}
MAP = {"id": 7, "name": "Ada", "score": None, "inner": {"a": 1, "deep": {"b": True}}, "list": [1, 2]}
TYPES = struct(
    {
        "i8": INT8,
        "i64": INT64,
        "f32": FLOAT32,
        "f64": FLOAT64,
        "yes": BOOLEAN,
        "text": STRING,
        "raw": BYTES,
        "money": decimal(2),
        "day": DATES,
        "clock": TIMES,
        "at": TIMESTAMPS,
        "pairs": mapping(STRING, INT32),
    }
)
ALL = {
    "i8": -5,
    "i64": 1 << 40,
    "f32": 2.5,
    "f64": 1e10,
    "yes": True,
    "text": "12",
    "raw": b"\x00\xff",
    "money": Decimal("12.34"),
    "day": date(2024, 2, 29),
    "clock": time(13, 5, 6, 789000),
    "at": datetime(2024, 2, 29, 13, 5, 6, 789000, tzinfo=UTC),
    "pairs": {"a": 1},
}
AT = 1_709_211_906_789


def of(value: object, schema: Schema | None = None, **more: Any) -> Record:
    return Record(topic="orders", value=value, value_schema=schema, key="k", key_schema=STRING, timestamp_ms=AT, **more)


TYPED, EMPTY, PLAIN, TOMBSTONE = of(ADA, PERSON), of(BARE, PERSON), of(MAP), of(None)
NULL_STRUCT = of(None, PERSON.or_null())
SHAPES = (TYPED, EMPTY, PLAIN, TOMBSTONE, NULL_STRUCT, of("text", STRING), of(12))


def _each(type_: str, options: Mapping[str, str], *records: Record, sink: bool = False) -> Iterator[Case]:
    full = type_ if "." in type_ else KAFKA + type_
    for record in records or SHAPES:
        place = TopicPlace("orders", 3, 99) if sink else SourcePlace({}, {})
        yield Case(full, options, replace(record, place=place, partition=3 if sink else record.partition), sink)


def _fields() -> Iterator[Case]:
    yield from _each("ExtractField$Value", {"field": "name"})
    yield from _each("ExtractField$Value", {"field": "score"}, TYPED, PLAIN)
    yield from _each("ExtractField$Value", {"field": "score", "replace.null.with.default": "false"}, TYPED)
    yield from _each("ExtractField$Value", {"field": "nothing"}, TYPED, PLAIN)
    nested = {"field.syntax.version": "V2"}
    yield from _each("ExtractField$Value", {"field": "address.city", **nested}, TYPED, EMPTY)
    yield from _each("ExtractField$Value", {"field": "inner.deep.b", **nested}, PLAIN)
    yield from _each("ExtractField$Value", {"field": "`a.b`.c", **nested}, of({"a.b": {"c": 3}}))
    yield from _each("ExtractField$Value", {"field": "inner.a.b", **nested}, PLAIN)
    yield from _each("ExtractField$Value", {"field": "inner.deep.b"}, PLAIN)
    yield from _each("ExtractField$Key", {"field": "id"}, replace(PLAIN, key=ADA, key_schema=PERSON))
    yield from _each("HoistField$Value", {"field": "wrapped"})
    yield from _each("HoistField$Key", {"field": "id"}, PLAIN)
    yield from _each("InsertField$Value", {"topic.field": "topic", "timestamp.field": "at!", "partition.field": "p"})
    yield from _each("InsertField$Value", {"static.field": "source?", "static.value": "odradek"})
    yield from _each("InsertField$Value", {"offset.field": "offset!", "partition.field": "p"}, TYPED, PLAIN, sink=True)
    yield from _each("InsertField$Value", {"offset.field": "offset"}, TYPED, PLAIN)
    yield from _each("InsertField$Value", {"timestamp.field": "at"}, replace(PLAIN, timestamp_ms=None))
    yield from _each("InsertField$Value", {"static.field": "source"}, PLAIN)
    yield from _each("InsertField$Value", {}, PLAIN)
    yield from _each("ReplaceField$Value", {"exclude": "name,tags", "renames": "id:number,score:points"})
    yield from _each("ReplaceField$Value", {"include": "id,score", "replace.null.with.default": "false"}, TYPED, PLAIN)
    yield from _each("ReplaceField$Value", {"include": "id,name", "exclude": "id"}, TYPED, PLAIN)
    yield from _each("ReplaceField$Value", {"renames": "id"}, TYPED)
    yield from _each("ValueToKey", {"fields": "id,score"})
    yield from _each("ValueToKey", {"fields": "nothing"}, TYPED, PLAIN)
    yield from _each("SetSchemaMetadata$Value", {"schema.name": "New", "schema.version": "3"})
    yield from _each("SetSchemaMetadata$Key", {"schema.name": "Key"}, TYPED)


def _shapes() -> Iterator[Case]:
    yield from _each("Flatten$Value", {})
    yield from _each("Flatten$Value", {"delimiter": "_"}, TYPED, PLAIN)
    inner = struct({"a": INT32, "b": replace(STRING, default="x", optional=True)}).or_null()
    for value in ({"i": {"a": 1, "b": None}}, {"i": None}):
        yield from _each("Flatten$Value", {}, of(value, struct({"i": inner})))
    yield from _each("Flatten$Value", {}, of({"m": {"a": 1}}, struct({"m": mapping(STRING, INT32)})))
    yield from _each("MaskField$Value", {"fields": "id,name,tags"})
    for name in TYPES.fields:
        for options in ({}, {"replacement": "42"}, {"replacement": "x"}):
            yield from _each("MaskField$Value", {"fields": name.name, **options}, of(ALL, TYPES))
    yield from _each("MaskField$Value", {"fields": "address"}, TYPED)
    yield from _each("MaskField$Value", {"fields": "id,inner,nothing"}, PLAIN)
    yield from _each("MaskField$Value", {"fields": "id", "replacement": "3.7"}, TYPED, PLAIN)


def _casts() -> Iterator[Case]:
    targets = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
    for target in targets:
        for name in TYPES.fields:
            yield from _each("Cast$Value", {"spec": f"{name.name}:{target}"}, of(ALL, TYPES))
        for value in (300, -1.9, 1e30, True, "7", " 7", "+7", "1e3", "x", "TRUE", None, 0.0001, 123456789.125):
            yield from _each("Cast$Value", {"spec": f"v:{target}"}, of({"v": value}))
            yield from _each("Cast$Value", {"spec": target}, of(value))
        yield from _each("Cast$Value", {"spec": target}, of(12, replace(INT32, name="N", optional=True, default=3)))
        yield from _each("Cast$Key", {"spec": target}, replace(PLAIN, key="9", key_schema=STRING))
    yield from _each("Cast$Value", {"spec": "id:string,score:float32,nothing:int8"})
    yield from _each("Cast$Value", {"spec": "id:text"}, TYPED)
    yield from _each("Cast$Value", {"spec": "f32:string"}, of({"f32": 0.1}, struct({"f32": FLOAT32})))


def _headers() -> Iterator[Case]:
    with_headers = replace(TYPED, headers=(Header("a", 1, INT32), Header("b", "x", STRING), Header("a", 2, INT32)))
    yield from _each("DropHeaders", {"headers": "a,c"}, with_headers)
    yield from _each("HeaderFrom$Value", {"fields": "id,score", "headers": "h1,h2", "operation": "copy"})
    yield from _each("HeaderFrom$Value", {"fields": "id,score", "headers": "h1,h2", "operation": "move"})
    yield from _each("HeaderFrom$Value", {"fields": "id", "headers": "a,b", "operation": "move"}, TYPED)
    yield from _each("HeaderFrom$Value", {"fields": "none", "headers": "a", "operation": "move"}, TYPED, PLAIN)
    literals = (
        "text", "12", "-129", "70000", "5000000000", "1.5", "1e400", "12345678901234567890", "true",
        "null", "[1,2,300]", '["a", "b"]', '{"a": 1, "b": 2}', "[a", "2024-02-29", "13:05:06.789Z",
        "2024-02-29T13:05:06.789Z",
        "a,b", "1,2", "+", "0.1", "1.0", '"quoted"', "false ",
    )  # fmt: skip
    for literal in literals:
        yield from _each("InsertHeader", {"header": "h", "value.literal": literal}, with_headers)


def _topics() -> Iterator[Case]:
    for regex, new in (("ord(.*)", "$1-new"), ("(?<x>o).*", "${x}"), ("rders", "x"), ("(", "x"), (".*", "a\\$b")):
        yield from _each("RegexRouter", {"regex": regex, "replacement": new}, TYPED)
    yield from _each("TimestampRouter", {}, TYPED, replace(TYPED, timestamp_ms=None))
    yield from _each("TimestampRouter", {"topic.format": "${timestamp}/${topic}", "timestamp.format": "yyyy-MM"}, TYPED)
    yield from _each("Filter", {}, TYPED)


def _times() -> Iterator[Case]:
    patterns = (
        "yyyy-MM-dd'T'HH:mm:ss.SSSX", "yyyyMMddHHmmss", "EEE, d MMM yyyy h:mm a z", "yy/M/d", "D kk KK",
        "''yyyy 'o''clock'",
    )  # fmt: skip
    moment = datetime(2024, 2, 29, 13, 5, 6, 789000, tzinfo=UTC)
    for pattern in patterns:
        yield from _each(
            "TimestampConverter$Value", {"target.type": "string", "format": pattern}, of(moment, TIMESTAMPS)
        )
    texts = {
        "yyyy-MM-dd": ("2024-02-29", "2024-13-45", "2024-2-9 tail", "x"),
        "yyyyMMddHHmmss": ("20240229130506",),
        "yyyy-MM-dd'T'HH:mm:ss.SSSXXX": ("2024-02-29T13:05:06.789+02:00", "2024-02-29T13:05:06.789Z"),
        "EEE, d MMM yyyy h:mm a z": ("Thu, 29 Feb 2024 1:05 PM UTC",),
        "yy/M/d": ("24/2/29",),
    }
    for pattern, each in texts.items():
        for text in each:
            yield from _each(
                "TimestampConverter$Value", {"target.type": "unix", "format": pattern}, of(text), of(text, STRING)
            )
    for target in ("unix", "Date", "Time", "Timestamp"):
        yield from _each("TimestampConverter$Value", {"target.type": target}, of(moment, TIMESTAMPS), of(AT, INT64))
        for name in ("day", "clock", "at", "i64", "text", "i8"):
            yield from _each("TimestampConverter$Value", {"target.type": target, "field": name}, of(ALL, TYPES))
    for precision in ("seconds", "microseconds", "nanoseconds"):
        options = {"target.type": "unix", "unix.precision": precision}
        yield from _each("TimestampConverter$Value", options, of(-1_500_000_001), of(moment, TIMESTAMPS))
    yield from _each(
        "TimestampConverter$Value", {"target.type": "unix", "field": "none"}, PLAIN, TOMBSTONE, NULL_STRUCT
    )
    yield from _each("TimestampConverter$Value", {"target.type": "string"}, TYPED)
    yield from _each("TimestampConverter$Value", {"target.type": "unix", "format": "yyyy-QQ"}, TYPED)
    yield from _each("TimestampConverter$Value", {"target.type": "unix", "field": "id"}, of({"id": True}))


SOURCE = struct({"db": STRING, "table": STRING, "lsn": INT64.or_null()}, name="io.debezium.connector.postgresql.Source")
BLOCK = struct({"id": STRING, "total_order": INT64, "data_collection_order": INT64}, name="event.block").or_null()


def event(row: Schema, op: str, before: object, after: object, **more: Any) -> Record:
    schema = struct(
        {
            "before": row.or_null(),
            "after": row.or_null(),
            "source": SOURCE,
            "transaction": BLOCK,
            "op": STRING,
            "ts_ms": INT64.or_null(),
        },
        name="pg.public.t.Envelope",
    )
    source = {"db": "shop", "table": "t", "lsn": 5}
    value = {"before": before, "after": after, "source": source, "transaction": None, "op": op, "ts_ms": AT}
    return Record(
        topic="pg.public.t", key={"id": 1}, key_schema=struct({"id": INT32}), value=value, value_schema=schema, **more
    )


def _unwrapped() -> Iterator[Case]:
    unwrap = f"{DEBEZIUM}ExtractNewRecordState"
    row = struct({"id": INT32, "name": STRING.or_null(), "n": replace(INT32, default=4, optional=True)}, name="Row")
    old, new = {"id": 1, "name": "a", "n": None}, {"id": 1, "name": "b", "n": None}
    events = (
        event(row, "c", None, new), event(row, "u", old, new), event(row, "d", old, None), event(row, "t", None, None),
        Record(topic="pg.public.t", key={"id": 1}, key_schema=struct({"id": INT32})), TYPED, PLAIN,
    )  # fmt: skip
    for mode in ("tombstone", "drop", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"):
        yield from _each(unwrap, {"delete.tombstone.handling.mode": mode}, *events)
        more = {"add.fields": "op,source.lsn,db,ts_ms:at,transaction.id,none", "add.headers": "op,table,source.lsn:pos"}
        yield from _each(unwrap, {"delete.tombstone.handling.mode": mode, **more}, *events)
    yield from _each(unwrap, {"delete.tombstone.handling.mode": "sometimes"}, TYPED)
    yield from _each(unwrap, {"add.fields": "op", "add.fields.prefix": "", "route.by.field": "name"}, *events)
    yield from _each(
        unwrap, {"delete.tombstone.handling.mode": "rewrite", "replace.null.with.default": "false"}, *events
    )
    drop = (Header("drop", ["name", "id"], array(STRING)),)
    for options in ({}, {"drop.fields.from.key": "true", "drop.fields.keep.schema.compatible": "false"}):
        dropping = (replace(each, headers=drop) for each in events[:3])
        yield from _each(unwrap, {"drop.fields.header.name": "drop", **options}, *dropping)


def _outbox() -> Iterator[Case]:
    route = f"{DEBEZIUM}outbox.EventRouter"
    micro = replace(INT64, name="io.debezium.time.MicroTimestamp", version=1)
    row = struct(
        {
            "id": STRING, "aggregatetype": STRING, "aggregateid": STRING, "type": STRING, "payload": STRING.or_null(),
            "at": micro, "part": INT32, "version": INT32,
        },
        name="pg.public.outbox.Value",
    )  # fmt: skip
    after = {
        "id": "e1", "aggregatetype": "Order", "aggregateid": "17", "type": "OrderCreated", "at": AT * 1000, "part": 2,
        "payload": '{"a": 1, "b": [{"c": null}, {"c": "x", "d": 5000000000}], "e": null, "f": 1.5}', "version": 3,
    }  # fmt: skip
    rows = (after, {**after, "payload": None}, {**after, "payload": "not json"}, {**after, "payload": " "})
    events = [event(row, "c", None, each) for each in rows]
    for options in (
        {},
        {"route.tombstone.on.empty.payload": "true"},
        {"table.expand.json.payload": "true"},
        {"table.expand.json.payload": "true", "table.json.payload.null.behavior": "optional_bytes"},
        {"table.fields.additional.placement": "type:header:eventType,part:partition"},
        {"table.fields.additional.placement": "type:envelope:kind,version:envelope"},
        {"table.fields.additional.placement": "type:envelope", "table.field.event.schema.version": "version"},
        {"table.fields.additional.placement": "none:header"},
        {"table.fields.additional.placement": "none:header", "table.fields.additional.error.on.missing": "false"},
        {"table.field.event.timestamp": "at"},
        {"table.field.event.timestamp": "version"},
        {"table.field.event.key": "type", "table.field.event.id": "version"},
        {"table.field.event.payload": "none"},
        {"route.by.field": "type", "route.topic.regex": "Order(.*)", "route.topic.replacement": "events.$1"},
        {"table.fields.additional.placement": "type"},
    ):
        yield from _each(route, options, *events)
    others = (event(row, "d", after, None), event(row, "u", after, after), TYPED, TOMBSTONE)
    yield from _each(route, {}, *others)
    yield from _each(route, {"table.op.invalid.behavior": "fatal"}, *others)


def cases() -> list[Case]:
    groups = (_fields, _shapes, _casts, _headers, _topics, _times, _unwrapped, _outbox)
    found = [case for group in groups for case in group()]
    return [replace(case, name=f"{n:03}-{case.type.rpartition('.')[2]}") for n, case in enumerate(found)]


def asked(case: Case) -> dict[str, Any]:
    """A line for the program that runs the classes of Kafka."""
    return {
        "type": case.type,
        "options": dict(case.options),
        "sink": case.sink,
        "offset": 99,
        **(shown(case.record) or {}),
    }
