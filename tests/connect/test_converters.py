"""Converters: what Kafka Connect's and Confluent's write, byte for byte, and what is refused."""

from __future__ import annotations

import io
import json
import math
import struct as binary
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from odradek.connect.conversion import CannotConvert, Converter, converter
from odradek.connect.interface import RetriableError
from odradek.connect.plugins import NoSuchPlugin
from odradek.connect.records import (
    BOOLEAN,
    BYTES,
    DATES,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    STRING,
    TIMES,
    TIMESTAMPS,
    Schema,
    array,
    decimal,
    mapping,
    struct,
)
from odradek.connect.validation import validated
from support.schema_registry import SchemaRegistry, schema_registry

KAFKA = "org.apache.kafka.connect."

ALL = struct(
    {
        "id": INT64,
        "small": INT8,
        "ratio": FLOAT64,
        "ok": BOOLEAN,
        "note": STRING.or_null(),
        "raw": BYTES,
        "price": decimal(2),
        "day": DATES,
        "at": TIMES,
        "seen": TIMESTAMPS,
        "tags": array(STRING),
        "counts": mapping(STRING, INT32),
        "by_number": mapping(INT32, STRING),
        "inner": struct({"x": INT32}, name="shop.Inner").or_null(),
    },
    name="shop.Order",
)
ROW: dict[str, Any] = {
    "id": 7,
    "small": -128,
    "ratio": 0.5,
    "ok": True,
    "note": None,
    "raw": b"\x00\xff",
    "price": Decimal("-12.34"),
    "day": date(2026, 11, 18),
    "at": time(1, 2, 3, 4000),
    "seen": datetime(2026, 11, 18, 12, 0, 0, 5000, tzinfo=UTC),
    "tags": ["a", "b"],
    "counts": {"a": 1},
    "by_number": {1: "one"},
    "inner": {"x": 1},
}


def made(name: str, **options: str) -> Converter:
    given = {f"value.converter.{key.replace('_', '.')}": text for key, text in options.items()}
    return converter({"value.converter": name, **given}, "value.converter", is_key=False)


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as registry:
        yield registry


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("storage.StringConverter", "grün", "grün".encode()),
        ("converters.ByteArrayConverter", b"\x00\x01", b"\x00\x01"),
        ("converters.ShortConverter", -2, b"\xff\xfe"),
        ("converters.IntegerConverter", 258, b"\x00\x00\x01\x02"),
        ("converters.LongConverter", -1, b"\xff" * 8),
        ("converters.FloatConverter", 1.5, binary.pack(">f", 1.5)),
        ("converters.DoubleConverter", 0.1, binary.pack(">d", 0.1)),
        ("converters.BooleanConverter", True, b"\x01"),
    ],
)
def test_single_values_have_the_bytes_of_kafkas_serializers(name: str, value: object, data: bytes) -> None:
    found = made(KAFKA + name)
    assert found.encode("t", None, value) == data
    assert found.decode("t", data)[1] == value
    assert found.encode("t", None, None) is None
    assert found.decode("t", None)[1] is None


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("short", 40_000, b"\x00"),
        ("integer", "7", b"\x00\x00"),
        ("long", True, b""),
        ("boolean", 1, b"\x02"),
        ("bytes", "text", None),
        ("string", "\udc80", b"\xff"),
    ],
)
def test_single_values_of_other_types_are_refused(name: str, value: object, data: bytes | None) -> None:
    with pytest.raises(CannotConvert):
        made(name).encode("t", None, value)
    if data is not None:
        with pytest.raises(CannotConvert):
            made(name).decode("t", data)


def test_text_has_the_encoding_of_the_option() -> None:
    assert made("string", converter_encoding="ISO-8859-1").encode("t", STRING, "ü") == b"\xfc"
    with pytest.raises(ValueError, match="not the name of an encoding"):
        made("string", converter_encoding="klingon")


def test_json_with_schemas_is_kafkas_envelope() -> None:
    schema = struct({"id": INT32, "price": decimal(2).or_null(), "day": DATES}, name="shop.Order")
    data = made(KAFKA + "json.JsonConverter").encode(
        "t", schema, {"id": 1, "price": Decimal("12.34"), "day": date(1970, 1, 2)}
    )
    assert json.loads(data or b"") == {
        "schema": {
            "type": "struct",
            "fields": [
                {"type": "int32", "optional": False, "field": "id"},
                {
                    "type": "bytes",
                    "optional": True,
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "version": 1,
                    "parameters": {"scale": "2"},
                    "field": "price",
                },
                {
                    "type": "int32",
                    "optional": False,
                    "name": "org.apache.kafka.connect.data.Date",
                    "version": 1,
                    "field": "day",
                },
            ],
            "optional": False,
            "name": "shop.Order",
        },
        "payload": {"id": 1, "price": "BNI=", "day": 1},
    }


@pytest.mark.parametrize("decimal_format", ["BASE64", "NUMERIC"])
def test_json_with_schemas_keeps_schema_and_value(decimal_format: str) -> None:
    found = made("json", decimal_format=decimal_format)
    assert found.decode("t", found.encode("t", ALL, ROW)) == (ALL, ROW)
    exact = {**ROW, "price": Decimal("123456789012345678901234567890.12")}
    assert found.decode("t", found.encode("t", ALL, exact))[1] == exact


def test_json_writes_numbers_that_json_lacks_as_text() -> None:
    found = made("json")
    for number in (math.inf, -math.inf):
        assert found.decode("t", found.encode("t", FLOAT64, number)) == (FLOAT64, number)
    assert json.loads(found.encode("t", FLOAT64, math.nan) or b"")["payload"] == "NaN"


def test_json_without_schemas_is_the_payload() -> None:
    found = made("json", schemas_enable="false")
    assert found.encode("t", struct({"day": DATES}), {"day": date(1970, 1, 3)}) == b'{"day":2}'
    assert found.decode("t", b'{"day":2}') == (None, {"day": 2})
    assert found.decode("t", None) == (None, None)


def test_a_null_with_a_schema_is_not_a_tombstone() -> None:
    """As Kafka's converter: only a null without a schema stays null."""
    found = made("json")
    assert found.encode("t", None, None) is None
    assert json.loads(found.encode("t", STRING.or_null(), None) or b"")["payload"] is None
    with pytest.raises(CannotConvert, match="null value for field that is required"):
        found.encode("t", STRING, None)


def test_a_null_takes_the_default_of_its_schema_unless_that_is_switched_off() -> None:
    schema = replace(STRING.or_null(), default="none")
    assert json.loads(made("json").encode("t", schema, None) or b"")["payload"] == "none"
    kept = made("json", replace_null_with_default="false").encode("t", schema, None)
    assert json.loads(kept or b"")["payload"] is None


@pytest.mark.parametrize("data", [b'{"a":1}', b"7", b'{"schema":null,"payload":1,"more":2}'])
def test_json_without_an_envelope_is_refused_with_kafkas_sentence(data: bytes) -> None:
    with pytest.raises(CannotConvert, match=r"JsonConverter with schemas\.enable requires"):
        made("json").decode("t", data)


@pytest.mark.parametrize(
    ("schema", "payload", "told"),
    [
        ({"type": "int33"}, 1, "int33"),
        ({"type": "int8"}, 128, "but its schema says int8"),
        ({"type": "array"}, [], "has no 'items'"),
        ({"type": "struct", "fields": [{"type": "int8"}]}, {}, "needs a name"),
        ({"type": "struct", "fields": [{"type": "int8", "field": "a"}]}, {"a": None}, "a is null"),
        ({"type": "bytes"}, "?", "not base64"),
    ],
)
def test_json_that_does_not_have_its_schema_is_refused(schema: object, payload: object, told: str) -> None:
    with pytest.raises(CannotConvert, match=told):
        made("json").decode("t", json.dumps({"schema": schema, "payload": payload}).encode())


def test_json_with_one_schema_for_all_records_carries_none() -> None:
    found = made("json", schema_content='{"type":"struct","fields":[{"type":"int64","field":"a"}]}')
    assert found.encode("t", struct({"a": INT64}), {"a": 1}) == b'{"a":1}'
    assert found.decode("t", b'{"a":1}') == (struct({"a": INT64}), {"a": 1})


def test_avro_keeps_schema_and_value_through_a_registry(registry: SchemaRegistry) -> None:
    found = made("io.confluent.connect.avro.AvroConverter", schema_registry_url=registry.url)
    data = found.encode("orders", ALL, ROW)
    assert data is not None
    schema, value = made("avro", schema_registry_url=registry.url).decode("orders", data)
    assert value == ROW
    assert without_precision(schema) == without_precision(ALL)
    number = int.from_bytes(data[1:5])
    assert data[0] == 0
    assert registry.subjects["orders-value"] == [number]


def without_precision(schema: Schema | None) -> object:
    """Confluent's converter adds the precision of decimals when it reads them."""
    assert schema is not None
    price = schema.of("price")
    assert price is not None
    return [(field.name, field.schema if field.name != "price" else price.name) for field in schema.fields]


def test_avro_is_what_fastavro_reads_with_the_registered_schema(registry: SchemaRegistry) -> None:
    schema = struct({"id": INT64, "price": decimal(2, 10), "seen": TIMESTAMPS}, name="shop.Sale")
    row = {"id": 1, "price": Decimal("1.50"), "seen": datetime(2026, 11, 18, tzinfo=UTC)}
    data = made("avro", schema_registry_url=registry.url).encode("sales", schema, row) or b""
    known = json.loads(registry.schemas[int.from_bytes(data[1:5])]["schema"])
    assert (known["name"], known["namespace"], known["connect.name"]) == ("Sale", "shop", "shop.Sale")
    assert fastavro.schemaless_reader(io.BytesIO(data[5:]), known, None) == row


def test_a_schema_is_registered_once_and_read_once(registry: SchemaRegistry) -> None:
    found = made("avro", schema_registry_url=registry.url)
    schema = struct({"n": INT32}, name="shop.Counted")
    before = len(registry.requests)
    data = [found.encode("counted", schema, {"n": n}) for n in range(50)]
    assert [found.decode("counted", each)[1] for each in data] == [{"n": n} for n in range(50)]
    assert len(registry.requests) - before == 2


def test_the_cache_of_schemas_is_bounded(registry: SchemaRegistry) -> None:
    found = made("avro", schema_registry_url=registry.url, schemas_cache_size="2")
    for n in range(5):
        found.encode("bounded", struct({f"f{n}": INT32}, name=f"shop.B{n}"), {f"f{n}": n})
    before = len(registry.requests)
    found.encode("bounded", struct({"f4": INT32}, name="shop.B4"), {"f4": 1})
    assert len(registry.requests) == before
    found.encode("bounded", struct({"f0": INT32}, name="shop.B0"), {"f0": 1})
    assert len(registry.requests) == before + 1


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("RecordNameStrategy", "shop.Named"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "t-shop.Named"),
    ],
)
def test_subjects_have_the_name_of_their_strategy(registry: SchemaRegistry, strategy: str, subject: str) -> None:
    found = made("avro", schema_registry_url=registry.url, value_subject_name_strategy=strategy)
    found.encode("t", struct({"n": INT32}, name="shop.Named"), {"n": 1})
    assert subject in registry.subjects


def test_without_auto_registration_an_unknown_schema_is_refused(registry: SchemaRegistry) -> None:
    found = made("avro", schema_registry_url=registry.url, auto_register_schemas="false")
    with pytest.raises(CannotConvert, match="Subject 'unregistered-value' not found"):
        found.encode("unregistered", struct({"n": INT32}, name="shop.Un"), {"n": 1})
    assert "unregistered-value" not in registry.subjects


@pytest.mark.parametrize("data", [b"", b"\x01\x00\x00\x00\x01x", b"\x00\x00\x0f\x42\x40x"])
def test_avro_that_the_registry_does_not_know_is_refused(registry: SchemaRegistry, data: bytes) -> None:
    with pytest.raises(CannotConvert):
        made("avro", schema_registry_url=registry.url).decode("t", data)


def test_an_outage_of_the_registry_is_retriable() -> None:
    with schema_registry() as gone:
        url = gone.url
    with pytest.raises(RetriableError, match="does not answer"):
        made("avro", schema_registry_url=url).decode("t", b"\x00\x00\x00\x00\x01x")


def test_another_address_is_tried_when_the_first_does_not_answer(registry: SchemaRegistry) -> None:
    with schema_registry() as gone:
        url = gone.url
    found = made("avro", schema_registry_url=f"{url},{registry.url}")
    assert found.encode("second", struct({"n": INT32}, name="shop.Second"), {"n": 1}) is not None


def test_avro_with_one_schema_needs_no_registry() -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "int"]}]})
    found = made("avro", schema=text)
    assert found.encode("t", None, {"n": 3}) == b"\x02\x06"
    assert found.decode("t", b"\x02\x06")[1] == {"n": 3}
    for data in (b"\x02", b"\x02\x06\x00"):
        with pytest.raises(CannotConvert):
            found.decode("t", data)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, 'give either "schema.registry.url" or "schema"'),
        ({"schema_registry_url": "localhost:8081"}, "must be an http or https address"),
        ({"schema": '{"type":"recrd"}'}, '"schema"'),
        ({"schema_registry_url": "http://a", "auto_register_schemaz": "x"}, "did you mean 'auto.register.schemas'"),
    ],
)
def test_bad_options_of_a_converter_are_refused_when_a_connector_is_created(options: dict[str, str], told: str) -> None:
    given = {"name": "gen", "connector.class": "datagen", "topic": "t", "value.converter": "avro"}
    given |= {f"value.converter.{key.replace('_', '.')}": text for key, text in options.items()}
    (row,) = [each for each in validated(given).checked if each.definition.name == "value.converter" and each.errors][
        :1
    ]
    assert told in row.errors[0]


def test_an_unknown_converter_is_refused() -> None:
    with pytest.raises(NoSuchPlugin):
        made("org.example.NoConverter")
