"""Python functions over Arrow batches, as Spark's workers call them, without Spark."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from odradek.streams.compile.python_rows import ERROR, Reducing, RowByRow, as_columns


@dataclasses.dataclass
class Point:
    x: int
    y: str


@pytest.mark.parametrize(
    "returned",
    [{"x": 1, "y": "a"}, Point(1, "a"), Row(y="a", x=1), (1, "a"), [1, "a"], {"x": 1, "y": "a", "_key": b""}],
)
def test_a_row_may_be_returned_in_many_shapes(returned):
    assert as_columns(returned, ["x", "y"]) == {"x": 1, "y": "a"}


@pytest.mark.parametrize("returned", [3, (1,), {"x": 1, "z": 2}, "ab\0", Point])
def test_what_is_no_row_is_refused(returned):
    with pytest.raises(TypeError, match="x, y"):
        as_columns(returned, ["x", "y"])


RECORD = pa.struct([("offset", pa.int64())])
COLUMNS = StructType([StructField("double", IntegerType()), StructField("who", StringType())])


def mapped(function, *, flat: bool = False) -> list[dict]:
    record = StructType([StructField("offset", IntegerType())])
    batch = pa.RecordBatch.from_pydict(
        {
            "n": pa.array([1, 2, 3]),
            "user": pa.array([{"name": "a"}, {"name": "b"}, None]),
            "tags": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
            "_key": pa.array([b"1", b"2", b"3"]),
            "_time": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * 3),
            "_record": pa.array([{"offset": 7}, {"offset": 8}, {"offset": 9}]),
        }
    )
    from pyspark.sql.types import BinaryType, TimestampType

    schema = StructType(
        [
            *COLUMNS,
            StructField("_key", BinaryType()),
            StructField("_time", TimestampType()),
            StructField("_record", record),
            StructField("_error", ERROR),
        ]
    )
    (made,) = RowByRow(function, COLUMNS.names, schema, "UTC", flat=flat)(iter([batch]))
    return made.to_pylist()


def test_a_row_has_its_columns_by_name_and_its_structs_as_rows():
    made = mapped(lambda row: {"double": 2 * row.n, "who": row.user and row.user.name})
    assert [(one["double"], one["who"], one["_key"]) for one in made] == [
        (2, "a", b"1"),
        (4, "b", b"2"),
        (6, None, b"3"),
    ]
    made = mapped(lambda row: {"who": str(row.tags)})
    assert [one["who"] for one in made] == ["{'k': 1}", "{}", "None"]


def test_what_raises_is_the_failure_of_its_row_alone():
    made = mapped(lambda row: {"double": 6 // (row.n - 2)})
    assert [one["double"] for one in made] == [-6, None, 6]
    assert [one["_error"] and one["_error"]["exception"] for one in made] == [None, "ZeroDivisionError", None]
    assert made[1]["_record"] == {"offset": 8}
    assert "test_python_rows.py" in made[1]["_error"]["stacktrace"]


def test_a_value_of_the_wrong_type_is_the_failure_of_its_row_alone():
    made = mapped(lambda row: {"double": "many" if row.n == 3 else row.n})
    assert [one["double"] for one in made] == [1, 2, None]
    assert "column double: 'many' is no int32" in made[2]["_error"]["message"]


def test_none_is_no_row_and_flat_map_gives_any_number():
    assert [one["double"] for one in mapped(lambda row: None if row.n == 2 else {"double": row.n})] == [1, 3]
    made = mapped(lambda row: ({"double": i} for i in range(row.n)), flat=True)
    assert [(one["double"], one["_key"]) for one in made] == [
        (0, b"1"),
        (0, b"2"),
        (1, b"2"),
        (0, b"3"),
        (1, b"3"),
        (2, b"3"),
    ]


def test_a_generator_that_fails_half_way_gives_nothing_of_its_row():
    def broken(row):
        yield {"double": row.n}
        if row.n == 2:
            raise KeyError("half way")

    made = mapped(broken, flat=True)
    assert [one["double"] for one in made] == [1, None, 3]
    assert made[1]["_error"]["exception"] == "KeyError"


def test_a_reduction_may_choose_one_of_the_two_rows():
    newest = Reducing(lambda one, other: max(one, other, key=lambda row: row.at), ["at", "km"])
    first = newest(None, Row(_bucket=7, at=1, km=2.5))
    assert first == Row(at=1, km=2.5)
    assert newest(first, Row(_bucket=7, at=2, km=0.5)) == Row(at=2, km=0.5)
    assert newest(first, Row(_bucket=7, at=0, km=9.0)) == first
