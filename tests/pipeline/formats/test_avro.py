"""Avro without Spark: schemas in both directions, bodies, and Confluent's framing."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from pyspark.sql.types import DecimalType, IntegerType, StringType, StructField, StructType

from odradek.pipeline.formats.avro import ConfluentFraming, NotAvro, decode_framed, decode_plain, encode
from odradek.pipeline.formats.avro_schemas import avro_schema_of, schema_of_struct, struct_of_schema
from odradek.pipeline.formats.schemas import ALLOWED, BadSchema

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "count", "type": "int"}]}}},
        {"name": "gift", "type": ["null", "Line"], "default": None},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}},
    ],
}  # fmt: skip


def test_avro_schema_gives_the_same_columns_in_any_form(tmp_path):
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    structs = [struct_of_schema(avro_schema_of(form)) for form in (ORDER, json.dumps(ORDER), file, str(file))]

    assert structs[0].simpleString() == (
        "struct<id:bigint,at:timestamp,day:date,price:decimal(9,2),state:string,lines:array<struct<sku:string,count:int>>,"
        "gift:struct<sku:string,count:int>,tags:map<string,string>>"
    )
    assert [f.name for f in structs[0] if f.nullable] == ["price", "gift"]
    assert structs[0]["state"].metadata[ALLOWED] == ["NEW", "DONE"]
    assert all(struct == structs[0] for struct in structs)


def test_columns_survive_conversion_to_avro_and_back():
    struct = struct_of_schema(ORDER)
    again = struct_of_schema(schema_of_struct(struct, "Order"))

    assert again.simpleString() == struct.simpleString()
    assert [f.nullable for f in again] == [f.nullable for f in struct]


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ({"name": "x", "type": ["int", "string"]}, ["Order.x", "union"]),
        ({"name": "x", "type": {"type": "int", "logicalType": "time-millis"}}, ["Order.x", "time-millis"]),
        ({"name": "x", "type": ["null", "Order"]}, ["Order.x", "recursive"]),
    ],
)
def test_avro_types_without_a_spark_type_are_refused_by_name(field, names):
    with pytest.raises(BadSchema) as refused:
        struct_of_schema({"type": "record", "name": "Order", "fields": [field]})
    assert all(name in str(refused.value) for name in names), refused.value


def test_plain_bodies_are_decoded_and_others_are_refused():
    row = {
        "id": 0,
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        "day": dt.date(2026, 1, 1),
        "price": Decimal("9.50"),
        "state": "NEW",
        "lines": [{"sku": "a", "count": 2}],
        "gift": None,
        "tags": {"k": None},
    }
    body = encode(row, ORDER)

    assert body[0] == 0, "a plain body may begin like Confluent's framing"
    assert decode_plain(body, ORDER) == row
    number = {"type": "record", "name": "Number", "fields": [{"name": "n", "type": "long"}]}
    with pytest.raises(NotAvro, match="1 bytes are left"):
        decode_plain(b"\x02\x02", number)
    with pytest.raises(NotAvro, match="shorter"):
        decode_plain(b"", number)


def test_confluents_framing_needs_the_schemas_by_id():
    old = StructType([StructField("id", IntegerType(), False)])
    new = StructType([StructField("id", IntegerType(), False), StructField("name", StringType(), True)])
    written, wanted = schema_of_struct(old, "R"), schema_of_struct(new, "R")
    framed = b"\0\0\0\0\7" + encode({"id": 5}, written)

    with pytest.raises(ConfluentFraming, match=r"schema id 7.*registry is not supported yet"):
        decode_plain(framed, wanted)
    assert decode_framed(framed, wanted, {7: written}) == {"id": 5, "name": None}
    with pytest.raises(ConfluentFraming, match="no schema 7 among"):
        decode_framed(framed, wanted, {8: written})
    with pytest.raises(NotAvro, match="zero byte"):
        decode_framed(b"\1", wanted, {7: written})


def test_a_decimal_keeps_its_precision():
    struct = StructType([StructField("price", DecimalType(12, 3), False)])
    schema = schema_of_struct(struct, "P")

    assert decode_plain(encode({"price": Decimal("1.250")}, schema), schema) == {"price": Decimal("1.250")}
    assert struct_of_schema(schema) == struct
