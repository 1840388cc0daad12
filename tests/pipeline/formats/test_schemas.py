"""Schemas from Python types: the column of each type, and errors that name the field."""

from __future__ import annotations

import datetime as dt
import enum
import subprocess
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType

import pydantic
import pytest
from pyspark.sql.types import DecimalType, IntegerType, StructField, StructType

from odradek.pipeline.formats.schemas import ALLOWED, DEFAULT, BadSchema, check_schema, struct_of

TruckId = NewType("TruckId", int)


class Kind(enum.Enum):
    NORMAL = "Normal"
    OVERSPEED = "Overspeed"


@dataclass
class Place:
    latitude: float
    longitude: float


@dataclass
class Event:
    truck: TruckId
    kind: Kind
    at: dt.datetime
    places: list[Place]
    day: dt.date | None = None
    place: Place | None = None
    counts: dict[str, int] = field(default_factory=dict)
    level: Literal[1, 2] = 1
    price: Annotated[Decimal, DecimalType(10, 2)] | None = None
    body: bytes | None = None


class Reading(pydantic.BaseModel):
    sensor: int = pydantic.Field(alias="s")
    values: tuple[float, ...]
    note: str | None = None
    unit: str = "C"


@dataclass
class Tree:
    children: list[Tree]


def test_dataclass_becomes_columns_with_required_fields_not_nullable():
    struct = struct_of(Event)

    assert struct.simpleString() == (
        "struct<truck:bigint,kind:string,at:timestamp,places:array<struct<latitude:double,longitude:double>>,day:date,"
        "place:struct<latitude:double,longitude:double>,counts:map<string,bigint>,level:bigint,price:decimal(10,2),"
        "body:binary>"
    )
    assert [f.name for f in struct if not f.nullable] == ["truck", "kind", "at", "places"]
    assert not struct["places"].dataType.containsNull
    assert struct["kind"].metadata[ALLOWED] == ["Normal", "Overspeed"]
    assert struct["level"].metadata == {ALLOWED: [1, 2], DEFAULT: 1}
    assert struct["counts"].metadata[DEFAULT] == {}


def test_a_pydantic_model_becomes_columns_by_field_name():
    struct = struct_of(Reading)

    assert struct.simpleString() == "struct<sensor:bigint,values:array<double>,note:string,unit:string>"
    assert [f.name for f in struct if f.nullable] == ["note", "unit"]


def _with(hint: Any, default: Any = ...) -> type:
    parts = ("x", hint) if default is ... else ("x", hint, default)
    from dataclasses import make_dataclass

    return make_dataclass("Wrong", [parts])


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (_with(Any), ["Wrong.x", "Any has no Spark type"]),
        (_with(int | str), ["Wrong.x", "int | str"]),
        (_with(list), ["Wrong.x", "what the list holds"]),
        (_with(dict), ["Wrong.x", "what the dict holds"]),
        (_with(list[complex]), ["Wrong.x[]", "complex"]),
        (_with(Literal["a", 1]), ["Wrong.x", "all text or all whole numbers"]),
        (_with(dt.date, dt.date(2026, 1, 1)), ["Wrong.x", "default"]),
        (Tree, ["Tree.children[]", "contains itself"]),
        (int, ["is not a schema", "a dataclass"]),
        (StructType([StructField("_time", IntegerType())]), ["'_time'", "rename"]),
    ],
)
def test_field_without_a_spark_type_is_refused_by_name(schema, names):
    with pytest.raises(BadSchema) as refused:
        check_schema(schema)
    assert all(name in str(refused.value) for name in names), refused.value


def test_declared_schemas_do_not_start_a_jvm():
    code = """
import dataclasses
from odradek.pipeline.formats import check_schema, format_of, struct_of
@dataclasses.dataclass
class Row:
    id: int
struct_of(Row); check_schema("id int"); format_of("avro")
from pyspark import SparkContext
assert SparkContext._gateway is None
"""
    subprocess.run([sys.executable, "-c", code], check=True)
