"""The Protobuf converter: what protoc's messages read and write, with a registry and without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import message_factory

from odradek.connect.conversion import CannotConvert, Converter, converter
from odradek.connect.converters.protobuf_files import pool_of
from odradek.connect.records import (
    BOOLEAN,
    BYTES,
    DATES,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMES,
    TIMESTAMPS,
    Kind,
    Schema,
    array,
    decimal,
    mapping,
    struct,
)
from support.protoc import compiled
from support.schema_registry import SchemaRegistry, schema_registry

ALL = struct(
    {
        "id": INT64,
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
        "inner": struct({"x": INT32.or_null()}, name="shop.Inner").or_null(),
        "many": array(struct({"y": STRING})),
        "by_name": mapping(STRING, struct({"z": INT64})),
    },
    name="shop.Order",
)
ROW: dict[str, Any] = {
    "id": -7,
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
    "inner": {"x": None},
    "many": [{"y": "one"}, {"y": "two"}],
    "by_name": {"a": {"z": 1}},
}
SHAPES = """
syntax = "proto2";
package shapes;
import "common/color.proto";
import "google/protobuf/timestamp.proto";
message Other { required int32 n = 1; }
message Outer {
  message First { optional string a = 1; }
  message Second {
    optional uint64 big = 1;
    repeated common.Color colors = 2;
    oneof which { string text = 3; int32 number = 4; }
    optional google.protobuf.Timestamp at = 5;
    required bool flag = 6;
  }
}
"""
COLOR = 'syntax = "proto3"; package common; enum Color { RED = 0; GREEN = 1; }'


def made(**options: str) -> Converter:
    given = {f"value.converter.{key.replace('_', '.')}": text for key, text in options.items()}
    return converter({"value.converter": "protobuf", **given}, "value.converter", is_key=False)


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as registry:
        yield registry


def test_records_keep_their_values_through_a_registry(registry: SchemaRegistry) -> None:
    data = made(schema_registry_url=registry.url).encode("orders", ALL, ROW) or b""
    schema, value = made(schema_registry_url=registry.url).decode("orders", data)
    assert value == ROW
    assert isinstance(schema, Schema)
    assert (schema.name, [field.name for field in schema.fields]) == ("shop.Order", list(ROW))
    assert schema.of("note") == STRING.or_null()
    assert schema.of("seen") == TIMESTAMPS.or_null()
    assert registry.subjects["orders-value"] == [int.from_bytes(data[1:5])]
    assert data[5] == 0  # the first message


def test_the_bytes_are_what_protoc_reads_with_the_registered_text(registry: SchemaRegistry) -> None:
    data = made(schema_registry_url=registry.url).encode("sales", ALL, ROW) or b""
    stored = registry.schemas[int.from_bytes(data[1:5])]
    assert stored["schemaType"] == "PROTOBUF"
    pool = pool_of(compiled({"order.proto": stored["schema"]}).file)
    read = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order")).FromString(data[6:])
    assert (read.id, read.price.scale, read.price.value, dict(read.counts)) == (-7, 2, b"\xfb\x2e", {"a": 1})
    assert (read.HasField("note"), read.HasField("inner"), read.inner.HasField("x")) == (False, True, False)
    assert [each.y for each in read.many] == ["one", "two"]


def test_a_nested_message_is_found_by_its_indexes_and_its_references(registry: SchemaRegistry) -> None:
    registry.answer("POST", "/subjects/colors/versions", {"schema": COLOR, "schemaType": "PROTOBUF"})
    reference = {"name": "common/color.proto", "subject": "colors", "version": 1}
    body = {"schema": SHAPES, "schemaType": "PROTOBUF", "references": [reference]}
    number = registry.answer("POST", "/subjects/shapes-value/versions", body)[1]["id"]
    pool = pool_of(compiled({"shapes.proto": SHAPES, "common/color.proto": COLOR}).file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("shapes.Outer.Second"))()
    message.colors.extend([1, 0])
    message.big, message.number, message.flag = 2**64 - 1, 0, True
    # the second message of the second message: a count, then zigzag numbers
    framed = b"\0" + number.to_bytes(4) + bytes([4, 2, 2]) + message.SerializeToString()
    schema, value = made(schema_registry_url=registry.url).decode("shapes", framed)
    which = {"text": None, "number": 0}
    assert value == {"big": -1, "colors": ["GREEN", "RED"], "which_0": which, "at": None, "flag": True}
    assert isinstance(schema, Schema)
    assert schema.of("flag") == BOOLEAN
    colors = schema.of("colors")
    assert colors is not None
    assert colors.items is not None
    assert colors.items.parameters["io.confluent.connect.protobuf.Enum.GREEN"] == "1"


def test_a_descriptor_file_replaces_the_registry(tmp_path: Path) -> None:
    path = tmp_path / "all.desc"
    path.write_bytes(compiled({"shapes.proto": SHAPES, "common/color.proto": COLOR}).SerializeToString())
    found = made(descriptor_file=str(path), message="shapes.Outer.Second")
    row = {"big": 3, "colors": ["RED"], "which_0": {"text": "t", "number": None}, "flag": False}
    data = found.encode("t", found.decode("t", b"\x30\x00")[0], row) or b""
    assert found.decode("t", data)[1] == row | {"at": None}
    with pytest.raises(CannotConvert, match="not Protobuf"):
        found.decode("t", b"\xff\xff")
    with pytest.raises(CannotConvert, match="not Protobuf"):
        found.decode("t", b"")  # a required field is missing


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        (STRING, "text", "messages only"),
        (struct({"a": array(array(STRING))}), {"a": []}, "array of array"),
        (struct({"a": mapping(FLOAT64, STRING)}), {"a": {}}, "Protobuf does not have"),
        (struct({"a": STRING}), {"a": 1}, "the value.a"),
        (struct({"a": STRING}), {"a": None}, "the value.a is null"),
        (struct({"a b": STRING, "a_b": STRING}), {}, "the name a_b"),
    ],
)
def test_values_that_protobuf_does_not_have_are_refused(
    registry: SchemaRegistry, schema: Schema, value: object, told: str
) -> None:
    with pytest.raises(CannotConvert, match=told):
        made(schema_registry_url=registry.url).encode("refused", schema, value)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0\0\1", b"\0\0\0\0\1\x80\x80\x80\x80\x80\x80", b"\0\0\0\0\1\x02\x08", b"\0\0\0\0\1\x03"]
)
def test_bad_frames_are_bad_records(registry: SchemaRegistry, data: bytes) -> None:
    made(schema_registry_url=registry.url).encode("frames", struct({"a": STRING}, name="one.Message"), {"a": "b"})
    with pytest.raises(CannotConvert):
        made(schema_registry_url=registry.url).decode("frames", data)


def test_names_and_logical_types_survive_other_characters(registry: SchemaRegistry) -> None:
    schema = struct({"a-b": INT32, "1st": replace(STRING, optional=True)}, name="my-db.public.t.Value")
    found = made(schema_registry_url=registry.url)
    data = found.encode("scrubbed", schema, {"a-b": 5, "1st": "x"})
    read, value = found.decode("scrubbed", data)
    assert value == {"a_b": 5, "_1st": "x"}
    assert isinstance(read, Schema)
    assert (read.name, read.kind) == ("my_db.public.t.Value", Kind.STRUCT)
