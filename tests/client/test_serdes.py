"""Encoding and decoding of keys and values."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum

import pytest

from odradek.client import BYTES, FLOAT64, INT64, JSON, TEXT, Serde, json_of
from odradek.client.serdes import serde_of


class Colour(Enum):
    RED = "red"


@dataclass
class Item:
    name: str
    price: Decimal
    colour: Colour = Colour.RED


@dataclass
class Order:
    id: int
    items: list[Item]
    at: datetime
    note: str | None = None
    weights: dict[str, float] = field(default_factory=dict)
    size: tuple[int, str] | None = None
    tags: tuple[str, ...] = ()


ORDER = Order(7, [Item("cup", Decimal("2.50"))], datetime(2026, 1, 2, 3, 4, tzinfo=UTC), weights={"cup": 1.0})
ORDER.size, ORDER.tags = (3, "cm"), ("new", "blue", "hot")


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (BYTES, b"\x00\xff", b"\x00\xff"),
        (TEXT, "naïve", "naïve".encode()),
        (JSON, {"a": [1, None, "ä"]}, '{"a":[1,null,"ä"]}'.encode()),
        (INT64, -2, b"\xff" * 7 + b"\xfe"),
        (FLOAT64, 1.5, b"\x3f\xf8" + bytes(6)),
        (serde_of(uuid.UUID), uuid.UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
        (
            json_of(Order),
            ORDER,
            b'{"id":7,"items":[{"name":"cup","price":"2.50","colour":"red"}],"at":"2026-01-02T03:04:00Z",'
            b'"note":null,"weights":{"cup":1.0},"size":[3,"cm"],"tags":["new","blue","hot"]}',
        ),
    ],
)
def test_encoded_values_are_decoded_again(serde: Serde[object], value: object, data: bytes) -> None:
    assert serde.to_bytes(value) == data
    assert serde.from_bytes(data) == value
    assert serde.to_bytes(None) is None
    assert serde.from_bytes(None) is None


def test_bytes_takes_text_and_refuses_other_types_with_a_hint() -> None:
    assert BYTES.to_bytes("text") == b"text"
    with pytest.raises(TypeError, match=r"3 is neither bytes nor text; choose.*value=odradek"):
        BYTES.to_bytes(3)


def test_types_select_their_serdes() -> None:
    assert [serde_of(chosen) for chosen in (bytes, str, int, float, dict)] == [BYTES, TEXT, INT64, FLOAT64, JSON]
    with pytest.raises(TypeError, match="complex is neither a dataclass nor a pydantic model"):
        serde_of(complex)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"items":[],"at":"2026-01-01T00:00:00"}', "missing required field `id`"),
        (b'{"id":"7","items":[],"at":"2026-01-01T00:00:00"}', r"Expected `int`, got `str` - at `\$.id`"),
        (b'{"id":true,"items":[],"at":"2026-01-01T00:00:00"}', r"Expected `int`, got `bool` - at `\$.id`"),
        (b'{"id":7,"items":[{"name":1,"price":"1"}],"at":"2026-01-01T00:00:00"}', r"at `\$.items\[0\].name`"),
        (b'{"id":7,"items":[],"at":"soon"}', r"Invalid RFC3339 encoded datetime - at `\$.at`"),
        (
            b'{"id":7,"items":[],"at":"2026-01-01T00:00:00","note":3}',
            r"got `int` - at `\$.note`",
        ),
        (b'{"id":7,"items":[],"at":"2026-01-01T00:00:00","size":[3]}', "length 2"),
        (b"[]", "Expected `object`, got `array`"),
    ],
)
def test_a_field_that_does_not_match_is_named(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        json_of(Order).from_bytes(data)


def test_unknown_fields_are_ignored() -> None:
    assert json_of(Order).from_bytes(b'{"id":1,"items":[],"at":"2026-01-01T00:00:00Z","new":9}') == Order(
        1, [], datetime(2026, 1, 1, tzinfo=UTC)
    )


def test_encoding_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="3 is not of type Order"):
        json_of(Order).to_bytes(3)
