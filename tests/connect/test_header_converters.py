"""Headers through `header.converter`, and JSON with its JSON Schema in a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from odradek.connect.conversion import CannotConvert, Conversion
from odradek.connect.records import (
    BOOLEAN,
    BYTES,
    DATES,
    FLOAT32,
    INT8,
    INT32,
    INT64,
    STRING,
    TIMESTAMPS,
    Header,
    Record,
    Schema,
    array,
    decimal,
    mapping,
    struct,
)
from odradek.connect.tasks.tolerance import Stage, stage_of
from support.schema_registry import SchemaRegistry, schema_registry

SIMPLE = {"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}


@pytest.mark.parametrize(
    ("schema", "value", "data"),
    [
        (STRING, "text", b"text"),
        (INT8, 7, b"7"),
        (FLOAT32, 1.5, b"1.5"),
        (BOOLEAN, True, b"true"),
        (array(INT8), [1, 2], b"[1,2]"),
        (mapping(STRING, STRING), {"a": 'b"'}, b'{"a":"b\\""}'),
        (DATES, date(2024, 2, 29), b"2024-02-29"),
        (TIMESTAMPS, datetime(2024, 2, 29, 1, tzinfo=UTC), b"2024-02-29T01:00:00.000Z"),
        (None, None, None),
    ],
)
def test_a_header_is_written_as_kafka_writes_it_and_read_again(
    schema: Schema | None, value: object, data: bytes | None
) -> None:
    conversion = Conversion.of(SIMPLE)
    encoded = conversion.encoded(Record(topic="t", headers=(Header("h", value, schema),)))
    assert encoded.headers == [("h", data)]
    assert conversion.decoded("t", None, None, encoded.headers).headers == (Header("h", value, schema),)


def test_headers_are_text_without_a_converter() -> None:
    assert Conversion.of({}).decoded("t", None, None, [("h", b"7")]).headers == (Header("h", "7"),)


def test_a_header_that_cannot_be_converted_has_its_own_stage() -> None:
    conversion = Conversion.of({"header.converter": "integer"})
    with pytest.raises(CannotConvert, match="the header 'h'") as failed:
        conversion.decoded("t", None, None, [("h", b"x")])
    assert stage_of(failed.value, Stage.VALUE_CONVERTER) == Stage.HEADER_CONVERTER


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as registry:
        yield registry


def json_schemas(registry: SchemaRegistry, **more: str) -> Conversion:
    given = {"value.converter": "io.confluent.connect.json.JsonSchemaConverter"}
    return Conversion.of(given | {"value.converter.schema.registry.url": registry.url, **more})


ORDER = struct(
    {
        "zip": INT32,
        "name": STRING.or_null(),
        "raw": BYTES,
        "price": decimal(2),
        "day": DATES,
        "tags": array(STRING),
        "counts": mapping(STRING, INT64),
        "inner": struct({"a": INT8}, name="Inner").or_null(),
    },
    name="shop.Order",
)
VALUE = {
    "zip": 1,
    "name": None,
    "raw": b"\x00",
    "price": Decimal("1.50"),
    "day": date(2024, 2, 29),
    "tags": ["x"],
    "counts": {"a": 1 << 40},
    "inner": {"a": 3},
}


def test_json_goes_through_the_registry_with_its_schema(registry: SchemaRegistry) -> None:
    conversion = json_schemas(registry)
    encoded = conversion.encoded(Record(topic="orders", value=VALUE, value_schema=ORDER))
    assert encoded.value is not None
    assert encoded.value[:5] == b"\x00\x00\x00\x00\x01"
    assert json.loads(encoded.value[5:])["day"] == 19782
    assert registry.subjects == {"orders-value": [1]}
    told = json.loads(registry.schemas[1]["schema"])
    assert registry.schemas[1]["schemaType"] == "JSON"
    assert told["title"] == "shop.Order"
    assert told["properties"]["zip"] == {"type": "integer", "connect.type": "int32", "connect.index": 0}
    assert told["properties"]["name"] == {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1}
    read = conversion.decoded("orders", None, encoded.value, [])
    assert (read.value_schema, read.value) == (ORDER, VALUE)
    assert conversion.encoded(Record(topic="orders")).value is None


def test_a_json_schema_of_another_writer_is_read(registry: SchemaRegistry) -> None:
    told = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}, "rate": {"type": "number"}},
        "required": ["id"],
    }
    registry.schemas[9] = {"schema": json.dumps(told), "schemaType": "JSON"}
    read = json_schemas(registry).decoded("t", None, b'\x00\x00\x00\x00\x09{"id": 5, "rate": 1.5}', [])
    assert read.value == {"id": 5, "note": None, "rate": 1.5}


@pytest.mark.parametrize(
    "told", ['{"type": "object", "properties": {"a": {"$ref": "#"}}}', '{"oneOf": [{"type": "null"}]}', "[]", "{"]
)
def test_a_json_schema_that_has_no_type_in_kafka_connect_is_a_bad_record(registry: SchemaRegistry, told: str) -> None:
    registry.schemas[9] = {"schema": told, "schemaType": "JSON"}
    with pytest.raises(CannotConvert, match="not a JSON Schema"):
        json_schemas(registry).decoded("t", None, b"\x00\x00\x00\x00\x09{}", [])


def test_bad_records_and_missing_options_are_named(registry: SchemaRegistry) -> None:
    with pytest.raises(CannotConvert, match="has no schema"):
        json_schemas(registry).encoded(Record(topic="t", value={"a": 1}))
    with pytest.raises(CannotConvert, match="does not begin with a zero byte"):
        json_schemas(registry).decoded("t", None, b"{}", [])
    with pytest.raises(ValueError, match=r"schema\.registry\.url"):
        Conversion.of({"value.converter": "json-schema"})
