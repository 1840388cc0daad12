"""Schemas and records, and their way to Arrow and back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from odradek.connect.arrow import NoSuchType, arrow_schema, batch_of, records_of, schema_of
from odradek.connect.records import (
    BOOLEAN,
    BYTES,
    DATES,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMPS,
    Header,
    Record,
    array,
    decimal,
    mapping,
    struct,
)

CUSTOMER = struct(
    {
        "id": INT64,
        "name": STRING.or_null(),
        "vip": BOOLEAN,
        "tags": array(STRING),
        "limits": mapping(STRING, INT32),
        "balance": decimal(2, 10),
        "born": DATES,
        "seen": TIMESTAMPS.or_null(),
        "photo": BYTES.or_null(),
        "place": struct({"lat": FLOAT64, "lon": FLOAT64}).or_null(),
    },
    name="customers.Value",
)
ADA = {
    "id": 1,
    "name": None,
    "vip": True,
    "tags": ["a", "b"],
    "limits": {"day": 5},
    "balance": Decimal("12.50"),
    "born": dt.date(1815, 12, 10),
    "seen": dt.datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=dt.UTC),
    "photo": b"\x00",
    "place": {"lat": 1.5, "lon": 2.5},
}


def test_schemas_are_equal_and_hashable_by_content() -> None:
    assert decimal(2) == decimal(2)
    assert hash(decimal(2, 10)) == hash(decimal(2, 10))
    assert CUSTOMER.of("id") == INT64
    assert CUSTOMER.of("none") is None


def test_records_become_columns_and_rows_again() -> None:
    batch = batch_of([Record(topic="customers", value=ADA)], CUSTOMER)
    assert batch.schema == arrow_schema(CUSTOMER)
    (record,) = records_of(batch, "customers")
    assert record.value == ADA
    assert record.value_schema is not None
    assert record.value_schema.fields == CUSTOMER.fields


def test_a_type_without_a_counterpart_is_refused_by_name() -> None:
    with pytest.raises(NoSuchType, match="duration"):
        schema_of(pa.schema([("wait", pa.duration("s"))]))


def test_the_last_header_of_a_name_counts() -> None:
    record = Record(topic="t", headers=(Header("a", "1"), Header("a", "2")))
    assert record.header("a") == "2"
    assert record.header("b") is None
