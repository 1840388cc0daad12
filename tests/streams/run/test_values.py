"""Values of every type through the engine, and what only Spark makes of them."""

from __future__ import annotations

import pytest

from odradek.streams import App, F

pytestmark = pytest.mark.spark


def test_aggregates_of_decimals_structs_arrays_and_nulls(odradek_test_driver):
    app = App("values")
    rows = app.stream(
        "rows", schema="k string, price decimal(10,2), pair struct<a: int, b: string>, tags array<string>, n int"
    )
    rows.group_by("k").agg(
        mean=F.avg("price"),
        most=F.max("pair"),
        tags=F.count_distinct("tags"),
        total=F.sum(F.col("price").cast("decimal(28,2)") + F.lit("9" * 28).cast("decimal(28,0)")),
        first=F.first("n", ignorenulls=True),
        sum=F.sum_distinct("n"),
        some=F.expr("first(n) filter (where n > 1)"),
        all=F.expr("collect_list(n) filter (where n > 0)"),
    ).to("out")
    with odradek_test_driver(app) as t:
        t.input("rows").send(
            {"k": "a", "price": "1.00", "pair": {"a": 1, "b": "x"}, "tags": ["p"], "n": None},
            {"k": "a", "price": "1.00", "pair": {"a": 2, "b": None}, "tags": ["p"], "n": 2},
            {"k": "a", "price": "2.00", "pair": {"a": 2, "b": "c"}, "tags": ["p", "q"], "n": 2},
            {"k": "a", "price": "2.00", "pair": None, "tags": None, "n": 1},
        )
        last = t.output("out").read_values()[-1]
    assert float(last["mean"]) == 1.5
    assert last["most"] == {"a": 2, "b": "c"}
    assert (last["tags"], last["first"], last["sum"], last["some"], last["all"]) == (2, 2, 3, 2, [2, 2, 1])
    assert str(last["total"]).startswith("4" if "e" in str(last["total"]) else "40000000000000000000000000002")


def test_an_array_becomes_rows(odradek_test_driver):
    app = App("posts")
    posts = app.stream("posts", schema="id int, tags array<string>")
    posts.select("id", F.explode("tags").alias("tag")).to("tags")
    with odradek_test_driver(app) as t:
        t.input("posts").send({"id": 1, "tags": ["p", "q"]}, {"id": 2, "tags": []})
        assert t.output("tags").read_values() == [{"id": 1, "tag": "p"}, {"id": 1, "tag": "q"}]
