"""`foreach` on a real Spark: retries, dead letters, and the record that stopped it."""

from __future__ import annotations

import sys

import pytest
from pyspark import cloudpickle

from odradek.streams import App
from odradek.streams.compile.explanations import QueryFailed

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as what a user's script defines


def test_rows_that_still_fail_are_dead_letters_and_the_others_are_taken(odradek_test_driver, tmp_path):
    taken = tmp_path / "taken"
    app = App("each")

    def write(row) -> None:
        with taken.open("a") as file:
            file.write(f"{row.n} ")
        if row.n == 2:
            raise ValueError("no even primes")

    numbers = app.stream("numbers", schema="n int")
    numbers.foreach(write, retries=2, backoff="1 ms", dlq="failed", name="write")
    numbers.group_by("n").count().to_stream().foreach(lambda row: 1 / (row.n - 1), dlq="failed-counts")
    assert "Sink: write-dead-letters" in app.describe()
    with odradek_test_driver(app) as t:
        t.input("numbers").send({"n": 1}, {"n": 2}, {"n": 3}, key="k", headers={"trace": b"t"})
        (letter,) = t.output("failed").read()
        assert (letter.key, letter.value, letter.headers["trace"]) == ("k", {"n": 2}, b"t")
        assert letter.headers["__streams.errors.message"] == b"no even primes"
        assert letter.headers["__streams.errors.step"] == b"write"
        assert letter.headers["__streams.errors.offset"] == b"1"
        assert sorted(taken.read_text().split()) == ["1", "2", "2", "2", "3"]
        (counted,) = t.output("failed-counts").read()
        assert counted.value == {"n": 1, "count": 1}, "no record stands behind a count, so it is its own"


def test_refused_row_stops_the_application_and_is_named(odradek_test_driver):
    app = App("each-strict")
    app.stream("numbers", schema="n int").foreach(lambda row: 1 / row.n, name="divide")
    with odradek_test_driver(app) as t:
        t.input("numbers").send({"n": 1}, {"n": 0})
        with pytest.raises(QueryFailed, match=r"divide cannot handle numbers-0 at offset 1: ZeroDivisionError"):
            t.settle()


def test_dead_letters_of_a_query_that_spark_runs_itself(odradek_test_driver):
    app = App("each-sql")
    app.stream("numbers", schema="n int")
    app.sql("select n, _key, _time from numbers").foreach(lambda row: 1 / row.n, dlq="failed", name="divide")
    with odradek_test_driver(app) as t:
        t.input("numbers").send({"n": 1}, {"n": 0})
        (letter,) = t.output("failed").read()
        assert letter.value == {"n": 0}
        assert letter.headers["__streams.errors.step"] == b"divide"
