"""A function per row: called again after a failure, then the row is set aside, skipped, or named."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odradek.streams.compile.calling import Calling, EachRow, RecordFailed

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
RECORD = pa.struct(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("headers", pa.list_(HEADER)),
    ]
)


def batch(*numbers: int, topic: str | None = "in") -> pa.RecordBatch:
    records = [
        {
            "key": b"k",
            "value": str(n).encode(),
            "topic": topic,
            "partition": 0,
            "offset": n,
            "headers": [{"key": "trace", "value": b"t"}],
        }
        for n in numbers
    ]
    return pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(records, RECORD)], names=["n", "_record"])


def calling(function, **options) -> Calling:
    defaults = {"step": "send", "retries": 0, "backoff_s": 0.0, "dlq": None, "on_error": "fail"}
    return Calling(function=function, **{**defaults, **options})


class Flaky:
    """Takes a row at the n-th attempt, where n is the row's number."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.calls: list[int] = []

    def __call__(self, row) -> None:
        self.calls.append(row.n)
        if self.calls.count(row.n) < row.n:
            raise ValueError(f"not yet\n{row.n}")
        self.taken.append(row.n)


def test_a_row_is_tried_again_and_then_set_aside():
    flaky = Flaky()
    (letter,) = calling(flaky, retries=2, dlq="bad").letters(batch(1, 2, 4, 3))
    assert flaky.taken == [1, 2, 3]
    assert flaky.calls == [1, 2, 2, 4, 4, 4, 3, 3, 3]
    assert (letter.key, letter.value) == (b"k", b"4")
    told = dict(letter.headers)
    assert told["trace"] == b"t"
    assert told["__streams.errors.exception"] == b"ValueError"
    assert told["__streams.errors.message"] == b"not yet\n4"
    assert told["__streams.errors.step"] == b"send"
    assert (told["__streams.errors.topic"], told["__streams.errors.offset"]) == (b"in", b"4")


def test_each_retry_waits_twice_as_long(monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr("odradek.streams.compile.calling.time.sleep", waits.append)
    assert list(calling(Flaky(), retries=3, backoff_s=0.5, on_error="skip").letters(batch(9))) == []
    assert waits == [0.5, 1.0, 2.0]


def test_without_a_topic_for_it_the_first_row_that_fails_is_named():
    flaky = Flaky()
    with pytest.raises(RecordFailed, match=r" send: in-0 at offset 2: ValueError: not yet 2 \(in __call__, "):
        list(calling(flaky).letters(batch(1, 2, 1)))
    assert flaky.calls == [1, 2]
    with pytest.raises(RecordFailed, match=r" send: row 2: ValueError"):
        list(calling(Flaky()).letters(batch(2, topic=None)))


def test_spark_gets_the_letters_as_rows():
    (letters,) = EachRow(calling(Flaky(), dlq="bad"))(iter([batch(1, 2)]))
    assert letters.column("value").to_pylist() == [b"2"]
    assert letters.column("headers").to_pylist()[0][0] == {"key": "trace", "value": b"t"}
