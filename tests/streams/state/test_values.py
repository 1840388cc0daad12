from __future__ import annotations

import enum
import pickle
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pydantic import BaseModel

from odradek.streams.state.values import ValueCodec


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
    codec = ValueCodec(hint)
    stored = pickle.loads(pickle.dumps(codec.schema.toInternal((codec.plain(value),))))  # as Spark does
    assert codec.revived(codec.schema.fromInternal(stored)[0]) == value
    assert all(field.nullable for field in codec.schema)
