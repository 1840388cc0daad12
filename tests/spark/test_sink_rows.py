"""Rows of an Arrow batch as the arguments of a producer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from odradek.spark.sink_options import Columns
from odradek.spark.writer import BadRow, local, records

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
VALUE = Columns(key=False, topic=False, partition=False, headers=False)


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_strings_and_bytes_are_written_as_bytes(kind: pa.DataType) -> None:
    rows = batch(value=pa.array(["é", None, ""], pa.string()).cast(kind), key=pa.array([None, "k", ""]).cast(kind))
    columns = Columns(key=True, topic=False, partition=False, headers=False)
    assert list(records(rows, columns, "t")) == [("t", "é".encode(), None), ("t", None, b"k"), ("t", b"", b"")]


def test_each_row_has_its_topic() -> None:
    rows = batch(value=pa.array(["a", "b"]), topic=pa.array(["t1", "t2"]))
    columns = Columns(key=False, topic=True, partition=False, headers=False)
    assert list(records(rows, columns, None)) == [("t1", b"a", None), ("t2", b"b", None)]


def test_the_option_topic_wins_over_the_column() -> None:
    rows = batch(value=pa.array(["a"]), topic=pa.array([None], pa.string()))
    assert list(records(rows, VALUE, "option")) == [("option", b"a", None)]


def test_a_row_without_a_topic_is_refused() -> None:
    rows = batch(value=pa.array(["a", "b"]), topic=pa.array(["t", None]))
    with pytest.raises(BadRow, match="column topic is null"):
        records(rows, Columns(key=False, topic=True, partition=False, headers=False), None)


def test_null_partition_lets_the_key_choose() -> None:
    rows = batch(value=pa.array(["a", "b"]), partition=pa.array([3, None], pa.int32()))
    columns = Columns(key=False, topic=False, partition=True, headers=False)
    assert list(records(rows, columns, "t")) == [("t", b"a", None, 3), ("t", b"b", None, -1)]


def test_negative_partition_is_refused() -> None:
    rows = batch(value=pa.array(["a", "b"]), partition=pa.array([-1, None], pa.int32()))
    with pytest.raises(BadRow, match="the partition -1; use 0 or more"):
        records(rows, Columns(key=False, topic=False, partition=True, headers=False), "t")


def test_headers_keep_order_and_nulls() -> None:
    given = [[{"key": "b", "value": b"2"}, {"key": "a", "value": None}], None, [], [{"key": "c", "value": b""}]]
    rows = batch(value=pa.array(["w", "x", "y", "z"]), headers=pa.array(given, HEADERS))
    columns = Columns(key=False, topic=False, partition=False, headers=True)
    expected = [[("b", b"2"), ("a", None)], None, None, [("c", b"")]]
    assert [record[-1] for record in records(rows, columns, "t")] == expected
    assert [record[-1] for record in records(rows.slice(1), columns, "t")] == expected[1:]


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"1"}])
def test_a_header_needs_a_key(header: dict[str, object] | None) -> None:
    rows = batch(value=pa.array(["x"]), headers=pa.array([[header]], HEADERS))
    with pytest.raises(BadRow, match="header without a key"):
        records(rows, Columns(key=False, topic=False, partition=False, headers=True), "t")


def test_slice_of_a_batch_gives_only_its_rows() -> None:
    rows = batch(value=pa.array(["a", "b", "c"]), partition=pa.array([0, 1, 2], pa.int32()))
    columns = Columns(key=False, topic=False, partition=True, headers=False)
    assert list(records(rows.slice(1, 1), columns, "t")) == [("t", b"b", None, 1)]


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("/c", "/c"),
        ("c/d", "c/d"),
        ("file:/c", "/c"),
        ("file:///c", "/c"),
        ("s3a://bucket/c", None),
        ("hdfs:/c", None),
        ("dbfs:/c", None),
    ],
)
def test_checkpoint_that_python_can_read(place: str, path: str | None) -> None:
    assert local(place) == (None if path is None else Path(path))
