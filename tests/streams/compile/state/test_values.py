from __future__ import annotations

import enum
import pickle
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pydantic import BaseModel

from odradek.streams.compile.state.values import ValueCodec


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Stop:
    place: str
    at: datetime
    notes: list[str] = field(default_factory=list)


@dataclass
class Trip:
    stops: list[Stop]
    colour: Colour
    best: Stop | None = None


class Model(BaseModel):
    name: str
    stops: dict[str, int] = {}


WHEN = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, 2**62),
        (float, 0.1),
        (bool, False),
        (str, "ä"),
        (bytes, b"\x00\xff"),
        (datetime, WHEN),
        (date, date(2026, 1, 1)),
        (Decimal, Decimal("1.500000000000000000")),
        (uuid.UUID, uuid.UUID(int=7)),
        (Colour, Colour.RED),
        (list[int], [1, 2]),
        (dict[str, datetime], {"a": WHEN}),
        (Stop, Stop("Bonn", WHEN, ["n"])),
        (Trip, Trip([Stop("Bonn", WHEN)], Colour.RED)),
        (Trip, Trip([], Colour.RED, Stop("Ulm", WHEN))),
        (list[Stop], [Stop("Bonn", WHEN)]),
        (Model, Model(name="m", stops={"x": 1})),
    ],
)
def test_values_come_back_as_what_they_were(hint, value) -> None:
    codec = ValueCodec(hint, "state")
    stored = pickle.loads(pickle.dumps(codec.schema.toInternal((codec.storable(value),))))  # as Spark does
    assert codec.revived(codec.schema.fromInternal(stored)[0]) == value
    assert all(field.nullable for field in codec.schema)


@pytest.mark.parametrize(
    ("hint", "value", "stored"),
    [
        (float, 3, 3.0),
        (list[float], [1, 2.5], [1.0, 2.5]),
        (int, True, 1),
        (Decimal, 5, Decimal(5)),
        (Stop, {"place": "Ulm", "at": WHEN}, {"place": "Ulm", "at": WHEN, "notes": None}),
    ],
)
def test_a_value_that_fits_is_stored_as_its_type(hint, value, stored) -> None:
    made = ValueCodec(hint, "state").storable(value)
    assert (made, repr(made)) == (stored, repr(stored))  # 3 == 3.0, but Spark would store null for 3


@pytest.mark.parametrize(
    ("hint", "value", "told"),
    [
        (int, "7", "state n: '7' is no bigint"),
        (int, 1.5, "state n: 1.5 is no bigint"),
        (int, 2**63, "state n: 9223372036854775808 is no bigint"),
        (float, "x", "state n: 'x' is no double"),
        (str, 7, "state n: 7 is no string"),
        (datetime, "noon", "state n: 'noon' is no timestamp"),
        (list[int], 7, "state n: 7 is no array<bigint>"),
        (dict[str, int], {"a": "b"}, "state n{}: 'b' is no bigint"),
        (Trip, Trip([Stop("Bonn", 5)], Colour.RED), "state n.stops[].at: 5 is no timestamp"),
    ],
)
def test_what_is_of_another_type_is_refused(hint, value, told) -> None:
    with pytest.raises(TypeError) as refused:
        ValueCodec(hint, "state n").storable(value)
    assert str(refused.value) == told
