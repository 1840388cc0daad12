"""Formats in Spark: records of every format to columns and back, and dead letters."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pydantic
import pytest

from odradek.pipeline import formats
from odradek.pipeline.formats import Protobuf
from odradek.pipeline.formats.avro import encode
from pipeline.formats.protobuf_messages import message

RAW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
NEW_YEAR = dt.datetime(2026, 1, 1)  # noqa: DTZ001 as rows come back from a session in UTC
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001


@pytest.fixture
def raw(spark):
    def records(*records: tuple[bytes | None, bytes | None], headers: list[tuple[str, bytes | None]] | None = None):
        rows = [(k, v, "in", 3, offset, NEW_YEAR, 0, headers) for offset, (k, v) in enumerate(records)]
        return spark.createDataFrame(rows, RAW).coalesce(1)

    return records


def rows_of(frame) -> list[Any]:
    """Good rows as dicts of their columns, failed rows as exception and message."""
    return [
        row._error.exception + ": " + row._error.message
        if row._error
        else {name: value for name, value in row.asDict(recursive=True).items() if name not in ("_key", "_error")}
        for row in frame.drop("_record").collect()
    ]


@dataclass
class Item:
    sku: str
    count: int = 1
    seen: dt.datetime | None = None


@dataclass
class Order:
    id: int
    kind: Literal["new", "old"]
    at: dt.datetime
    items: list[Item]
    tags: dict[str, int] = field(default_factory=dict)
    note: str | None = None
    gift: Item | None = None


GOOD = '{"id":1,"kind":"new","at":"2026-01-01T01:00:00.5+01:00","items":[{"sku":"a"}]}'


def test_json_is_read_by_its_schema_or_fails_with_the_field_name(raw):
    at = NEW_YEAR.replace(microsecond=500_000)
    order = {"id": 1, "kind": "new", "at": at, "items": [{"sku": "a", "count": 1, "seen": None}], "tags": {}}
    order |= {"note": None, "gift": None, "_time": at}
    iso, neither = '"2026-01-01T01:00:00.5+01:00"', "is neither ISO 8601 time nor epoch milliseconds before year 10000"
    gift = {"sku": "g", "count": 2, "seen": EPOCH + dt.timedelta(seconds=1)}
    cases = {
        GOOD: order,
        f" {GOOD}\n": order,
        GOOD.replace("{", '{"unknown":[{}],', 1): order,
        GOOD.replace("}", ',"seen":null}', 1).replace("]}", '],"note":5}'): order | {"note": "5"},
        GOOD.replace("]}", '],"note":"}{ \\" "}'): order | {"note": '}{ " '},
        GOOD.replace("]}", '],"tags":{"x":7},"gift":{"sku":"g","count":2,"seen":1000}}'): order
        | {"tags": {"x": 7}, "gift": gift},
        GOOD.replace(iso, "1767225600500"): order,
        GOOD.replace('"id":1,', ""): "MissingField: required field id is missing or null",
        GOOD.replace('"id":1', '"id":null'): "MissingField: required field id is missing or null",
        GOOD.replace('"id":1', '"id":"1"'): "WrongType: field id: 1 is not bigint",
        GOOD.replace('"id":1', '"id":1.5'): "WrongType: field id: 1.5 is not bigint",
        GOOD.replace('"new"', '"odd"'): "WrongValue: field kind: odd is not one of 'new', 'old'",
        GOOD.replace(iso, '"noon"'): f"WrongType: field at: 'noon' {neither}",
        GOOD.replace(iso, "1767225600500000"): f"WrongType: field at: '1767225600500000' {neither}",
        GOOD.replace('"sku":"a"', '"count":2'): "MissingField: required field items[].sku is missing or null",
        GOOD.replace('{"sku":"a"}', "null"): "MissingField: items[] holds a null",
        GOOD.replace(
            '[{"sku":"a"}]', '{"sku":"a"}'
        ): 'WrongType: field items: {"sku":"a"} is not array<struct<sku:string,count:bigint,seen:timestamp>>',
        GOOD + GOOD: "NotJson: the value is not one JSON object in UTF-8",
        GOOD + "\n" + GOOD: "NotJson: the value is not one JSON object in UTF-8",
        GOOD + " and more": "NotJson: the value is not one JSON object in UTF-8",
        "": "NotJson: the value is not one JSON object in UTF-8",
        "null": "NotJson: the value is not one JSON object in UTF-8",
        f"[{GOOD}]": "NotJson: the value is not one JSON object in UTF-8",
        "{'id':1}": "NotJson: the value is not valid JSON",
        '{"id":1,,}': "NotJson: the value is not valid JSON",
    }
    records = [(b"k", text.encode()) for text in cases] + [(b"k", b'{"note":"\xff"}'), (b"k", None)]

    *found, not_utf8, empty = rows_of(formats.parsing("json", Order, time="at")(raw(*records)))

    for text, row, expected in zip(cases, found, cases.values(), strict=True):
        assert row == expected, text
    assert not_utf8.startswith("NotJson")
    assert empty.startswith("NoValue")


def test_record_is_parsed_only_once_when_failures_are_filtered(raw):
    rows = formats.parsing("json", "id int not null")(raw((b"k", b'{"id":1}')))
    spark = rows.sparkSession
    shown = spark.conf.get("spark.sql.maxPlanStringLength")
    spark.conf.set("spark.sql.maxPlanStringLength", "1000000")
    try:
        plan = rows.where("_error is null and id > 0").select("id")._jdf.queryExecution().executedPlan().toString()
    finally:
        spark.conf.set("spark.sql.maxPlanStringLength", shown)

    assert plan.count("from_json(") == 1


def sensor_model() -> type[pydantic.BaseModel]:
    """A class that is sent to workers by value, because they cannot import this file."""

    class Sensor(pydantic.BaseModel):
        id: int = pydantic.Field(alias="i", ge=0)
        values: tuple[float, ...] = ()

    return Sensor


def test_formats_decoded_in_python_give_rows_and_errors(raw):
    avro = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "long"}, {"name": "on", "type": "boolean"}],
    }

    sensors = rows_of(
        formats.parsing("json", sensor_model())(
            raw(*((b"k", v) for v in (b'{"i":"1","values":[1,2.5]}', b'{"i":-1}', b"{", b'{"i":%d}' % 2**64)))
        )
    )
    assert sensors == [
        {"id": 1, "values": [1.0, 2.5], "_time": NEW_YEAR},
        "NotValid: i: Input should be greater than or equal to 0",
        "NotValid: Invalid JSON: EOF while parsing an object at line 1 column 1",
        "OverflowError: Python int too large to convert to C long",
    ]
    body = encode({"id": 7, "on": True}, avro)
    read = rows_of(formats.parsing("avro", avro)(raw((b"k", body), (b"k", b"\0\0\0\0\1" + body), (b"k", None))))
    assert read[0] == {"id": 7, "on": True, "_time": NEW_YEAR}
    assert read[1].startswith("ConfluentFraming: ")
    assert read[2].startswith("NoValue: ")


def test_delimited_lines_and_raw_records_are_read(raw):
    line = b"2016-10-19 14:54:38.18|40|Peoria|"
    lines = rows_of(
        formats.parsing("delimited", "at timestamp, truck int not null, city string", time="at")(
            raw(*((b"k", v) for v in (line, line[:-1], line.replace(b"40", b"x"), b"1|2", line.replace(b"40", b""))))
        )
    )
    at = dt.datetime(2016, 10, 19, 14, 54, 38, 180_000)  # noqa: DTZ001
    assert lines == [
        {"at": at, "truck": 40, "city": "Peoria", "_time": at},
        {"at": at, "truck": 40, "city": "Peoria", "_time": at},
        "WrongType: field truck: 'x' is not int",
        "WrongFieldCount: 2 fields between '|', and the schema has 3",
        "MissingField: required field truck is missing or null",
    ]
    records = raw((b"k", b"v"), (b"\xff", None))
    assert rows_of(formats.parsing("raw", None)(records)) == [
        {"key": b"k", "value": b"v", "_time": NEW_YEAR},
        {"key": b"\xff", "value": None, "_time": NEW_YEAR},
    ]
    assert rows_of(formats.parsing("text", None)(records)) == [
        {"key": "k", "value": "v", "_time": NEW_YEAR},
        "NotText: the key is not UTF-8",
    ]


def test_changelogs_are_read_as_changes_of_tables(raw):
    driver = "id int not null, name string not null"
    plain = raw(
        (b"1", b'{"id":1,"name":"Anna"}'), (b"2", b'{"name":"Bo"}'), (b"1", None), (b"x", None), (b"1", b'{"id":1}')
    )
    assert rows_of(formats.changelog("json", driver, ["id"])(plain)) == [
        {"id": 1, "name": "Anna", "_time": NEW_YEAR, "_deleted": False},
        {"id": 2, "name": "Bo", "_time": NEW_YEAR, "_deleted": False},
        {"id": 1, "name": None, "_time": NEW_YEAR, "_deleted": True},
        "NoKey: key column id is neither in the value nor in the record's key",
        "MissingField: required field name is missing or null",
    ]

    def wrapped(payload: dict[str, Any]) -> bytes:
        return json.dumps({"schema": {"type": "struct"}, "payload": payload}).encode()

    anna = {"id": 1, "name": "Anna"}
    events = raw(
        (
            wrapped({"id": 1}),
            wrapped({"before": None, "after": anna, "op": "c", "ts_ms": 2000, "source": {"ts_ms": 1000}}),
        ),
        (b'{"id":1}', json.dumps({"before": anna, "after": anna, "op": "u", "ts_ms": 3000}).encode()),
        (b'{"id":1}', json.dumps({"before": {"id": 1}, "after": None, "op": "d", "ts_ms": 4000}).encode()),
        (wrapped({"id": 1}), None),
        (b'{"id":1}', b'{"op":"t"}'),
        (b'{"id":1}', b'{"op":"c","after":{"id":"one","name":"x"}}'),
    )
    changes = [
        anna | {"_time": EPOCH + dt.timedelta(seconds=1), "_deleted": False},
        anna | {"_time": EPOCH + dt.timedelta(seconds=3), "_deleted": False},
        {"id": 1, "name": None, "_time": EPOCH + dt.timedelta(seconds=4), "_deleted": True},
        {"id": 1, "name": None, "_time": NEW_YEAR, "_deleted": True},
        "NotDebezium: op 't' is none of c, u, r, d",
        "WrongType: field after.id: one is not int",
    ]
    assert rows_of(formats.changelog("debezium", driver, ["id"])(events)) == changes
    assert rows_of(formats.parsing("debezium", driver)(events)) == changes[:3] + changes[4:], (
        "no tombstones in a stream"
    )


def test_rows_survive_encoding_and_parsing(spark, raw):
    rows = spark.createDataFrame(
        [(7, "ü", 1.5, NEW_YEAR.replace(microsecond=1), None, False, b"own"), (8, "x", None, None, [1], True, b"own")],
        "id int, name string, x double, at timestamp, list array<int>, _deleted boolean, _key binary",
    )

    def records(*arguments: Any, frame=rows, **options: Any) -> list[tuple[bytes, bytes]]:
        return [(r.key, r.value) for r in formats.encoding(*arguments, **options)(frame).collect()]

    text = '{"id":7,"name":"ü","x":1.5,"at":"2026-01-01T00:00:00.000001Z","list":null}'
    assert records("json") == [(b"own", text.encode()), (b"own", None)]
    assert records("json", ["id", "name"], ["x"]) == [
        ('{"id":7,"name":"ü"}'.encode(), b'{"x":1.5}'),
        (b'{"id":8,"name":"x"}', None),
    ]
    assert records("delimited", ["at"], ["id", "name", "x", "at"])[0] == (
        b"2026-01-01T00:00:00.000001Z",
        "7|ü|1.5|2026-01-01T00:00:00.000001Z".encode(),
    )
    assert records("raw", ["x"], ["name"]) == [(b"1.5", "ü".encode()), (None, None)]

    ((key, body), (_, deleted)) = records("avro", ["id"])
    assert (key, deleted) == (b"7", None)
    back = rows_of(formats.parsing("avro", rows.drop("_deleted", "_key").schema, time="at")(raw((key, body))))
    at = NEW_YEAR.replace(microsecond=1)
    assert back == [{"id": 7, "name": "ü", "x": 1.5, "at": at, "list": None, "_time": at}]


def test_dead_letters_are_the_failed_records_with_error_headers(raw):
    records = raw((b"a", b'{"id":1}'), (b"b", b"{"), headers=[("trace", b"42"), ("empty", None)])

    (letter,) = formats.dead_letters(formats.parsing("json", "id int")(records), "orders").collect()

    assert (letter.key, letter.value) == (b"b", b"{")
    assert [tuple(header) for header in letter.headers] == [
        ("trace", b"42"),
        ("empty", None),
        ("__streams.errors.exception", b"NotJson"),
        ("__streams.errors.message", b"the value is not one JSON object in UTF-8"),
        ("__streams.errors.step", b"orders"),
        ("__streams.errors.topic", b"in"),
        ("__streams.errors.partition", b"3"),
        ("__streams.errors.offset", b"1"),
    ]


def test_wrong_formats_and_schemas_are_refused_before_a_query_runs(spark, raw):
    records, rows = raw((b"k", b"v")), spark.createDataFrame([(1, "x")], "id int, name string")
    mistakes = {
        "there is no format 'jsn'": lambda: formats.parsing("jsn", "id int")(records),
        "the format json needs a schema": lambda: formats.parsing("json", None)(records),
        "cannot read the schema 'id foo'": lambda: formats.parsing("json", "id foo")(records),
        "the time column 'at' is none of id": lambda: formats.parsing("json", "id int", time="at")(records),
        "the time column 'id' is boolean": lambda: formats.parsing("json", "id boolean", time="id")(records),
        "the key column 'k' is none of id": lambda: formats.changelog("json", "id int", ["k"])(records),
        "no place for array<int>": lambda: formats.parsing("csv", "id array<int>")(records),
        "a raw record has one value": lambda: formats.encoding("raw")(rows),
        "the column 'name' is not a field of shop.Order": lambda: formats.encoding(Protobuf(message("shop.Order")))(
            rows
        ),
        "'id' is string, and the field of shop.Order is bigint": lambda: formats.encoding(
            Protobuf(message("shop.Order"))
        )(rows.selectExpr("name as id")),
        "the key column 'k' is none": lambda: formats.encoding("json", ["k"])(rows),
        "debezium can only be read": lambda: formats.encoding("debezium")(rows),
    }
    for words, mistake in mistakes.items():
        with pytest.raises(formats.BadSchema, match=words):
            mistake()
