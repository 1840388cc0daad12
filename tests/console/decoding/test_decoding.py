"""Decoders: detection and its reasons, Avro and Protobuf against their own libraries, and hostile payloads."""

from __future__ import annotations

import io
import json
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from odradek.connect.converters.registry import Registry, Stored
from odradek.connect.interface import RetriableError
from odradek.console.decoding import protobuf
from odradek.console.decoding.avro import AvroSchema
from odradek.console.decoding.choosing import NAMES, UnknownDecoder, _as_document, chosen
from odradek.console.decoding.interface import Undecodable
from odradek.console.decoding.proto_text import parsed_proto
from odradek.console.decoding.protobuf import ProtobufSchema, without_schema
from odradek.console.decoding.schemas import FAILURE_S, UNKNOWN_MAX, Found, Schemas
from support.schema_registry import schema_registry

CHARS = 10_000


def shown(data: bytes, name: str = "auto", schemas: Schemas | None = None, schema: str = "", pretty: bool = False):
    return chosen(name, schemas, schema).shown(data, CHARS, pretty=pretty)


@pytest.mark.parametrize(
    ("data", "kind", "text", "why"),
    [
        (b'{"a": 1.10, "b": 123456789012345678901}', "json", '{"a":1.10,"b":123456789012345678901}', "JSON document"),
        (b"[1,2]\n", "json", "[1,2]", "JSON document"),
        (b'"quoted"', "json", '"quoted"', "JSON document"),
        (b"{not json}", "text", "{not json}", "UTF-8"),
        (b"11", "text", "11", "UTF-8"),
        ("ä<script>".encode(), "text", "ä<script>", "UTF-8"),
        (b"", "empty", "", "no bytes"),
        (b"\xff\xfe", "hex", "fffe", "neither JSON nor UTF-8"),
        (b"\0\0\0\x01\xffmore", "hex", "00000001ff6d6f7265", "without --schema-registry"),
        (struct.pack(">q", 7), "hex", "0000000000000007", "int64 or float64"),
        (b"[" * 100_000 + b"]" * 100_000, "text", "[" * CHARS, "UTF-8"),
    ],
)
def test_detection_says_what_it_found(data: bytes, kind: str, text: str, why: str):
    found = shown(data)
    assert (found.kind, found.text) == (kind, text)
    assert why in found.why


def test_chosen_decoder_that_does_not_fit_shows_hex_and_the_reason():
    for name, data, why in [
        ("json", b"{", "not JSON"),
        ("int64", b"123", "has 8 bytes, but there are 3"),
        ("avro", b"\0\0\0\0\1x", "without --schema-registry"),
        ("protobuf", b"\xff", "does not end"),
    ]:
        found = shown(data, name)
        assert found.kind == "hex"
        assert found.failed
        assert why in found.why


def test_numbers_of_java_serializers():
    assert shown(struct.pack(">q", -5), "int64").text == "-5"
    assert chosen("float64", None).document(struct.pack(">d", 1.5)) == 1.5


def test_text_is_cut_at_the_limit():
    found = chosen("auto", None).shown(b"x" * 1000, 10, pretty=False)
    assert (found.text, found.is_cut) == ("x" * 10, True)
    found = chosen("hex", None).shown(b"x" * 1000, 160, pretty=True)
    assert found.text.splitlines()[0].endswith("xxxxxxxxxxxxxxxx")
    assert (len(found.text.splitlines()), found.is_cut) == (2, True)


def test_unknown_decoder_is_refused_by_name():
    with pytest.raises(UnknownDecoder, match="there are auto, json"):
        chosen("xml", None)


@given(st.binary(max_size=200), st.sampled_from(list(NAMES)), st.booleans())
def test_any_bytes_are_shown(data: bytes, name: str, pretty: bool):
    found = chosen(name, None).shown(data, 100, pretty=pretty)
    assert len(found.text) <= 200


# --- Avro

EVENT = {
    "type": "record",
    "name": "Event",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "again", "type": "Kind"},
        {"name": "raw", "type": "bytes"},
        {"name": "four", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "yes", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "inner", "type": ["null", "Event"]},
    ],
}


def written(schema: object, value: object) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def event(inner: object = None) -> dict[str, object]:
    return {
        "id": 2**40, "name": "ä", "tags": ["x", "y"], "counts": {"a": -1}, "kind": "B", "again": "A",
        "raw": b"\1\xff", "four": b"abcd", "f": 0.5, "d": 1.25, "yes": True,
        "at": datetime(2026, 11, 19, 10, tzinfo=UTC), "day": date(2026, 11, 19), "price": Decimal("-12.34"),
        "inner": inner,
    }  # fmt: skip


def test_avro_bodies_of_fastavro_are_read():
    found = AvroSchema(json.dumps(EVENT)).document(written(EVENT, event(event())))
    assert found["inner"]["inner"] is None
    assert found["inner"] | {"inner": None} == found | {"inner": None}
    assert found | {"inner": None} == event() | {
        "raw": "01ff", "four": "61626364", "at": "2026-11-19T10:00:00Z", "day": "2026-11-19", "price": "-12.34",
    }  # fmt: skip


NAME = st.sampled_from(["a", "b", "c"])
SCHEMAS = st.recursive(
    st.sampled_from(["null", "boolean", "int", "long", "double", "string"]),
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "map", "values": values}, inner),
    ),
    max_leaves=3,
)


def values(schema: object) -> st.SearchStrategy[object]:
    match schema:
        case {"type": "array", "items": items}:
            return st.lists(values(items), max_size=3)
        case {"type": "map", "values": inner}:
            return st.dictionaries(NAME, values(inner), max_size=3)
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "double": st.floats(allow_nan=False),
        "string": st.text(max_size=5),
    }[schema]


@given(SCHEMAS.flatmap(lambda schema: st.tuples(st.just(schema), values(schema))))
def test_avro_values_of_any_schema_are_read(case: tuple[object, object]):
    schema, value = case
    assert AvroSchema(json.dumps(schema)).document(written(schema, value)) == value


@given(st.binary(max_size=100))
def test_avro_of_any_bytes_ends(data: bytes):
    with suppress(Undecodable):
        AvroSchema(json.dumps(EVENT)).document(data)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("bytes", b"\xfe\xff\xff\xff\xff\x01"),
        ("long", b"\xff" * 20),
        ({"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}, b"\2" * 5000 + b"\0"),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, b"\2" * 5000),
        ("string", b"\x02ab"),
        (["null", "int"], b"\x08"),
    ],
)
def test_hostile_avro_is_refused(schema: object, data: bytes):
    began_s = time.monotonic()
    with pytest.raises(Undecodable):
        AvroSchema(json.dumps(schema)).document(data)
    assert time.monotonic() - began_s < 10


def test_text_that_is_no_avro_schema_is_refused():
    for text in ["", "{", "5", '{"type": "record"}', '{"type": "array"}', "[" * 100_000]:
        with pytest.raises(Undecodable):
            AvroSchema(text).document(b"")


def test_records_with_a_frame_need_the_registry():
    with schema_registry() as registry:
        number = registry._registered("t-value", {"schema": json.dumps(EVENT)})
        schemas = Schemas(registry.url)
        data = struct.pack(">bI", 0, number) + written(EVENT, event())
        found = shown(data, schemas=schemas)
        assert (found.kind, found.schema) == ("avro", f"shop.Event (schema {number})")
        assert json.loads(found.text)["name"] == "ä"
        assert chosen("avro", schemas).document(data)["kind"] == "B"
        assert len(registry.requests) == 1

        missing = shown(struct.pack(">bI", 0, 99) + b"x", schemas=schemas)
        assert missing.kind == "hex"
        assert "Schema not found" in missing.why
        for _ in range(10):
            shown(struct.pack(">bI", 0, 99) + b"x", schemas=schemas)
        assert len(registry.requests) == 2  # failures are remembered for a while


def test_ids_that_the_registry_does_not_know_are_asked_for_at_a_bounded_rate():
    now = [0.0]
    with schema_registry() as registry:
        schemas = Schemas(registry.url, now_s=lambda: now[0])
        problems = [schemas.of(number).problem for number in range(1000, 1000 + 3 * UNKNOWN_MAX)]
        assert len(registry.requests) == UNKNOWN_MAX
        assert "Schema not found" in problems[0]
        assert "was not asked" in problems[-1]
        known = registry._registered("t-value", {"schema": json.dumps(EVENT)})
        now[0] += FAILURE_S + 1
        assert schemas.of(known).body is not None
        schemas.of(2000)
        assert len(registry.requests) == UNKNOWN_MAX + 2


def test_registry_that_does_not_answer_is_asked_once_in_a_while_for_all_ids(monkeypatch: pytest.MonkeyPatch):
    asked, now = [], [0.0]

    def silent(_registry: Registry, number: int) -> Stored:
        asked.append(number)
        raise RetriableError("no answer")

    monkeypatch.setattr(Registry, "stored", silent)
    schemas = Schemas("http://127.0.0.1:1", now_s=lambda: now[0])
    assert {schemas.of(number).problem for number in range(20)} == {"no answer"}
    assert asked == [0]
    now[0] += FAILURE_S + 1
    schemas.of(7)
    assert asked == [0, 7]


def test_known_schemas_are_returned_while_the_registry_is_slow(monkeypatch: pytest.MonkeyPatch):
    started, release = threading.Event(), threading.Event()
    with schema_registry() as registry:
        schemas = Schemas(registry.url)
        known = registry._registered("t-value", {"schema": json.dumps(EVENT)})
        schemas.of(known)

        def slow(_registry: Registry, _number: int) -> Stored:
            started.set()
            release.wait(60)
            raise RetriableError("no answer")

        monkeypatch.setattr(Registry, "stored", slow)
        with ThreadPoolExecutor(2) as threads:
            asking = threads.submit(schemas.of, 999)
            try:
                assert started.wait(60)
                assert threads.submit(schemas.of, known).result(30).body is not None
            finally:
                release.set()
            assert asking.result(60).problem == "no answer"


def test_avro_without_a_registry_uses_the_given_schema():
    found = shown(written(EVENT, event()), "avro", schema=json.dumps(EVENT))
    assert (found.kind, found.schema) == ("avro", "shop.Event")


def test_schemas_that_refer_to_others_are_read():
    city = {"type": "record", "name": "City", "namespace": "geo", "fields": [{"name": "name", "type": "string"}]}
    trip = {"type": "record", "name": "Trip", "fields": [{"name": "to", "type": "geo.City"}]}
    whole = {**trip, "fields": [{"name": "to", "type": city}]}
    place = 'syntax = "proto3"; package geo; enum Kind { LAND = 0; SEA = 1; } message Place { Kind kind = 1; }'
    journey = 'syntax = "proto3"; import "place.proto"; message Journey { geo.Place place = 1; geo.Kind kind = 2; }'
    with schema_registry() as registry:
        registry._registered("geo", {"schema": json.dumps(city)})
        refer = [{"name": "geo.City", "subject": "geo", "version": 1}]
        avro = registry._registered("t-value", {"schema": json.dumps(trip), "references": refer})
        registry._registered("place", {"schema": place, "schemaType": "PROTOBUF"})
        refer = [{"name": "place.proto", "subject": "place", "version": 1}]
        proto = registry._registered("p-value", {"schema": journey, "schemaType": "PROTOBUF", "references": refer})
        decoder = chosen("auto", Schemas(registry.url))
        body = written(whole, {"to": {"name": "Oslo"}})
        assert decoder.document(struct.pack(">bI", 0, avro) + body) == {"to": {"name": "Oslo"}}
        body = b"\0" + b"\x0a\x02\x08\x01" + b"\x10\x01"
        assert decoder.document(struct.pack(">bI", 0, proto) + body) == {"place": {"kind": "SEA"}, "kind": "SEA"}


# --- Protobuf

PROTO = """
syntax = "proto3";
package shop;  // a comment
import "google/protobuf/timestamp.proto";
option java_package = "x";
message Other { int32 a = 1; }
/* the message
   of records */
message Order {
  option deprecated = false;
  reserved 40 to 50, 60;
  enum State { NEW = 0; PAID = 1 [deprecated = true]; }
  message Line { string product = 1; uint32 count = 2; Line part = 3; }
  int64 id = 1;
  string customer = 2 [json_name = "who"];
  State state = 3;
  repeated Line lines = 4;
  map<string, int32> stock = 5;
  google.protobuf.Timestamp at = 6;
  repeated sint32 deltas = 7;
  oneof payment { string card = 8; double cash = 9; }
  optional bool gift = 10;
  bytes raw = 11;
  fixed64 big = 12;
  float share = 13;
  .shop.Other other = 14;
}
service Shop { rpc Buy(Order) returns (Order) { option x = 1; } }
"""


def order_class():
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    other = file.message_type.add(name="Other")
    other.field.add(name="a", number=1, type=5, label=1)
    order = file.message_type.add(name="Order")
    state = order.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    line = order.nested_type.add(name="Line")
    line.field.add(name="product", number=1, type=9, label=1)
    line.field.add(name="count", number=2, type=13, label=1)
    line.field.add(name="part", number=3, type=11, label=1, type_name=".shop.Order.Line")
    entry = order.nested_type.add(name="StockEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=5, label=1)
    for name, number, kind, label, type_name in [
        ("id", 1, 3, 1, None), ("customer", 2, 9, 1, None), ("state", 3, 14, 1, ".shop.Order.State"),
        ("lines", 4, 11, 3, ".shop.Order.Line"), ("stock", 5, 11, 3, ".shop.Order.StockEntry"),
        ("at", 6, 11, 1, ".google.protobuf.Timestamp"), ("deltas", 7, 17, 3, None), ("card", 8, 9, 1, None),
        ("cash", 9, 1, 1, None), ("gift", 10, 8, 1, None), ("raw", 11, 12, 1, None), ("big", 12, 6, 1, None),
        ("share", 13, 2, 1, None), ("other", 14, 11, 1, ".shop.Other"),
    ]:  # fmt: skip
        order.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)
    order.oneof_decl.add(name="payment")
    for field in order.field:
        if field.name in ("card", "cash"):
            field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    from google.protobuf import timestamp_pb2

    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def order_bytes() -> bytes:
    order = order_class()(id=-7, customer="Ann", state=1, deltas=[-1, 5], cash=2.5, raw=b"\xff", big=2**63, share=0.5)
    order.lines.add(product="tea", count=2).part.product = "bag"
    order.stock["tea"] = -3
    order.at.seconds = 1_795_082_400
    order.other.a = -2
    return order.SerializeToString()


ORDER = {
    "id": -7, "customer": "Ann", "state": "PAID",
    "lines": [{"product": "tea", "count": 2, "part": {"product": "bag", "count": 0}}],
    "stock": {"tea": -3}, "at": "2026-11-19T10:00:00Z", "deltas": [-1, 5], "cash": 2.5, "raw": "ff", "big": 2**63,
    "share": 0.5, "other": {"a": -2},
}  # fmt: skip


def test_protobuf_bodies_of_googles_library_are_read():
    schema = ProtobufSchema(PROTO)
    assert schema.document(b"\2\2" + order_bytes()) == ORDER  # the second message of the file
    assert schema.document(b"\0" + b"\x08\x05") == {"a": 5}
    assert schema.document(b"\4\2\0" + b"\x0a\1x") == {"product": "x", "count": 0}  # Order.Line


def test_protobuf_with_a_frame_needs_the_registry():
    with schema_registry() as registry:
        number = registry._registered("t-value", {"schema": PROTO, "schemaType": "PROTOBUF"})
        data = struct.pack(">bI", 0, number) + b"\2\2" + order_bytes()
        found = shown(data, schemas=Schemas(registry.url))
        assert found.kind == "protobuf"
        assert json.loads(found.text) == ORDER


def test_protobuf_without_a_schema_shows_field_numbers():
    found = without_schema(order_bytes())
    assert (found["2"], found["9"], found["13"], found["11"]) == ("Ann", 2.5, 0.5, "ff")
    assert found["4"] == {"1": "tea", "2": 2, "3": "\n\x03bag"} or found["4"]["1"] == "tea"
    assert shown(order_bytes(), "protobuf").schema == "without a schema: fields by number"


@given(st.binary(max_size=300))
def test_protobuf_of_any_bytes_ends(data: bytes):
    for read in (without_schema, ProtobufSchema(PROTO).document):
        with suppress(Undecodable):
            json.dumps(read(data))


def test_hostile_protobuf_is_refused_or_cut(monkeypatch: pytest.MonkeyPatch):
    nested = b""
    for _ in range(200):
        size = bytearray()
        length = len(nested)
        while length > 127:
            size.append(length & 127 | 128)
            length >>= 7
        nested = b"\x1a" + bytes([*size, length]) + nested
    with pytest.raises(Undecodable, match="nested"):
        ProtobufSchema(PROTO).document(b"\4\2\0" + nested)
    json.dumps(without_schema(nested))
    monkeypatch.setattr(protobuf, "FIELDS_MAX", 1000)
    with pytest.raises(Undecodable, match="more than 1000 fields"):
        without_schema(b"\x08\x01" * 5000)
    with pytest.raises(Undecodable, match="more than 1000 fields"):
        ProtobufSchema(PROTO).document(b"\2\2\x3a\x90\x4e" + b"\x01" * 10_000)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("message A { Unknown b = 1; }", "does not define"),
        ("message A {", "too early"),
        ("message A { group G = 1 {} }", "groups"),
        ("nonsense", "begins no definition"),
        ("message " + "A { message " * 100, "nested"),
        ("$", "line 1"),
        ("", "no message"),
    ],
)
def test_bad_proto_files_are_refused(text: str, told: str):
    with pytest.raises(Undecodable, match=told):
        ProtobufSchema(text)


def test_schema_with_its_own_well_known_types_is_refused():
    own = 'syntax = "proto3"; package google.protobuf; message Timestamp { string seconds = 1; int32 other = 2; }'
    with pytest.raises(Undecodable, match=r"google\.protobuf\.Timestamp is not as expected"):
        ProtobufSchema(own).document(b"\x00" + b"\x0a\x01x")


def test_document_that_is_nested_too_deep_is_shown_as_such():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    found = _as_document(deep, Found("avro", "Deep", None), 100, "", pretty=False)
    assert (found.failed, "nested too deep" in found.why) == (True, True)


def test_proto2_fields_have_presence():
    file = parsed_proto('syntax = "proto2"; message A { required int32 a = 1; optional string b = 2 [default = "x"]; }')
    assert all(field.has_presence for field in file.top[0].fields.values())
