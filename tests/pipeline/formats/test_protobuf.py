"""Protobuf without Spark: columns of messages, bodies in both directions, and errors."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from google.protobuf import struct_pb2

from odradek.pipeline.formats import BadSchema, Protobuf, columns_of
from odradek.pipeline.formats.protobuf import NotProtobuf, decode, encode
from pipeline.formats.protobuf_messages import files, message

NOON = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
ROW = {
    "id": -5,
    "big": Decimal(2**64 - 1),
    "small": 2**32 - 1,
    "price": 1.5,
    "weight": 0.5,
    "paid": True,
    "note": "",
    "blob": b"\xff\x00",
    "state": "DONE",
    "at": NOON,
    "first": {"sku": "a", "count": 1},
    "lines": [{"sku": "b", "count": 2}, {"sku": "c", "count": 0}],
    "tags": ["x", "y"],
    "counts": {"n": 1},
    "named": {"d": {"sku": "d", "count": 4}},
    "nickname": "nick",
}
NULLS = ("note", "at", "first", "nickname")


@pytest.fixture
def order():
    return message("shop.Order")


def test_class_and_descriptor_file_give_the_same_columns(order, tmp_path):
    file = tmp_path / "shop.desc"
    file.write_bytes(files().SerializeToString())
    structs = [columns_of(Protobuf(*given), None) for given in ((order,), (file, "shop.Order"), (order.DESCRIPTOR,))]
    assert structs[0].simpleString() == (
        "struct<id:bigint,big:decimal(20,0),small:bigint,price:double,weight:float,paid:boolean,note:string,blob:binary,"
        "state:string,at:timestamp,first:struct<sku:string,count:int>,lines:array<struct<sku:string,count:int>>,"
        "tags:array<string>,counts:map<string,int>,named:map<string,struct<sku:string,count:int>>,nickname:string>"
    )
    assert tuple(f.name for f in structs[0] if f.nullable) == NULLS
    assert structs[0] == structs[1] == structs[2]
    assert str(Protobuf(order)) == "protobuf shop.Order"


def test_row_survives_encoding_and_decoding(order):
    described = pickle.loads(pickle.dumps(Protobuf(order).described))  # as it is sent to the workers
    body = encode(ROW, described)
    assert decode(body, described) == ROW
    theirs = order.FromString(body)
    assert (theirs.id, theirs.big, theirs.state, theirs.lines[1].sku) == (-5, 2**64 - 1, 1, "c")
    assert theirs.at.ToDatetime(UTC) == NOON
    assert (theirs.named["d"].count, theirs.nickname.value, theirs.HasField("note")) == (4, "nick", True)


def test_unset_field_is_null_or_its_default(order):
    described = Protobuf(order).described
    row = decode(b"", described)
    assert {name for name, value in row.items() if value is None} == set(NULLS)
    assert (row["id"], row["state"], row["tags"], row["counts"]) == (0, "NEW", [], {})
    assert encode(dict.fromkeys(ROW), described) == b""
    assert encode(None, described) is None


def test_unknown_enum_number_is_read_as_text_and_written_back(order):
    described = Protobuf(order).described
    row = decode(order(state=7).SerializeToString(), described)
    assert row["state"] == "7"
    assert order.FromString(encode({"state": "7"}, described)).state == 7
    with pytest.raises(ValueError, match="'LOST' is none of NEW, DONE"):
        encode({"state": "LOST"}, described)


def test_bytes_that_are_not_a_message_are_refused(order):
    with pytest.raises(NotProtobuf, match=r"not a shop\.Order"):
        decode(b"\xff\xff", Protobuf(order).described)


def test_messages_that_cannot_be_columns_are_refused_when_declared(order, tmp_path):
    file = tmp_path / "shop.desc"
    file.write_bytes(files().SerializeToString())
    mistakes = {
        r"there is no message 'shop.Ordr'[\s\S]*\"shop.Order\"": lambda: Protobuf(file, "shop.Ordr"),
        "the name of the message is missing": lambda: Protobuf(str(file)),
        "is not a Protobuf file descriptor set": lambda: Protobuf(tmp_path / "nothing.desc", "x"),
        "does not describe a Protobuf message": lambda: Protobuf(dict),
        "shop.Tree contains itself": lambda: columns_of(Protobuf(message("shop.Tree")), None),
        "google.protobuf.Struct": lambda: columns_of(Protobuf(struct_pb2.Struct), None),
        "are its fields": lambda: columns_of(Protobuf(order), "id int"),
    }
    for told, mistake in mistakes.items():
        with pytest.raises(BadSchema, match=told):
            mistake()
