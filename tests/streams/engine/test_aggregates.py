"""Spark's aggregate functions in Python, on values of every type that a column may have."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal

import pytest

from odradek.streams.engine.steps.aggregates import Aggregates

NAN = float("nan")


def aggregated(name, *rows, scale=None, cut=None):
    """What comes out of the rows (tuples of arguments); with `cut`, of two states that are merged."""
    of = Aggregates((name,), (tuple(range(len(rows[0]))),), (scale,))
    states = [of.begin(), of.begin()]
    for index, row in enumerate(rows):
        of.add(states[cut is not None and index >= cut], row)
        states = pickle.loads(pickle.dumps(states))
    kept = states[0] if cut is None else of.merge(*states)
    return of.results(kept)[0]


def of_values(name, *values, **options):
    return aggregated(name, *[(value,) for value in values], **options)


def test_an_average_of_decimals_has_the_scale_of_its_type():
    one, two = Decimal("1.00"), Decimal("2.00")
    assert str(of_values("avg", one, one, two, scale=6)) == "1.333333"
    assert str(of_values("avg", two, one, two, scale=6)) == "1.666667"
    assert of_values("avg", None, scale=6) is None


def test_a_sum_of_decimals_keeps_all_38_digits():
    large = Decimal("9" * 30 + ".25")
    assert of_values("sum", large, Decimal("0.25"), scale=2) == Decimal("9" * 30 + ".50")
    assert of_values("sum", large, Decimal("0.25"), scale=2, cut=1) == Decimal("9" * 30 + ".50")


@pytest.mark.parametrize(
    ("values", "least", "most"),
    [
        ([{"a": 2, "b": "x"}, {"a": 1, "b": "z"}, {"a": 2, "b": "y"}], {"a": 1, "b": "z"}, {"a": 2, "b": "y"}),
        ([{"a": 1}, {"a": None}], {"a": None}, {"a": 1}),
        ([[1, 2], [1], [1, None]], [1], [1, 2]),
        ([[], [None]], [], [None]),
        ([{"a": NAN}, {"a": 1.0}], {"a": 1.0}, {"a": NAN}),
        ([2.0, NAN, 1.0], 1.0, NAN),
        ([b"\xff", b"a"], b"a", b"\xff"),
        ([Decimal("1.50"), None, Decimal("1.05")], Decimal("1.05"), Decimal("1.50")),
    ],
)
def test_values_of_every_type_have_spark_s_order(values, least, most):
    assert repr(of_values("min", *values)) == repr(least)
    assert repr(of_values("max", *values)) == repr(most)
    assert repr(of_values("max", *values, cut=1)) == repr(most)
    rows = [(number, value) for number, value in enumerate(values)]
    assert repr(values[aggregated("max_by", *rows)]) == repr(most)


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([[1], [1], [2], None], 2),
        ([{"a": [1]}, {"a": [1]}, {"a": None}], 2),
        ([NAN, float("inf") - float("inf"), -NAN], 1),
        ([0.0, -0.0, 1.0], 2),
        ([Decimal("1.00"), Decimal("1.00")], 1),
        (["a", "b", None, "a"], 2),
    ],
)
def test_values_of_every_type_are_counted_once(values, count):
    assert of_values("count distinct", *values) == count
    assert of_values("count distinct", *values, cut=1) == count
    assert len(of_values("collect_set", *values)) == count
    assert len(of_values("collect_set", *values, cut=1)) == count


def test_a_count_of_several_columns_leaves_out_rows_with_a_null():
    assert aggregated("count distinct", (1, "a"), (1, None), (1, "b"), (1, "a")) == 2


def test_distinct_values_can_be_given_to_every_function():
    assert of_values("sum distinct", 3, 3, None, 4) == 7
    assert of_values("sum distinct", 3, 3, None, 4, cut=1) == 7
    assert of_values("avg distinct", 1.0, 1.0, 4.0) == 2.5
    assert of_values("collect_list distinct", "b", "a", "b") == ["b", "a"]
    assert math.isclose(of_values("stddev_pop distinct", 1, 1, 3), 1.0)


def test_first_and_last_with_and_without_nulls():
    assert of_values("first", None, 1, 2) is None
    assert of_values("first skipping nulls", None, 1, 2, None) == 1
    assert of_values("last", 1, 2, None) is None
    assert of_values("last skipping nulls", None, 1, 2, None) == 2
    assert of_values("last skipping nulls", None, 1, None, cut=2) == 1


def test_collections_with_nulls():
    assert of_values("collect_list", 1, None, 1) == [1, 1]
    assert of_values("collect_list with nulls", 1, None, 1) == [1, None, 1]
    assert of_values("collect_set with nulls", 1, None, 1, None) == [1, None]


def test_a_filter_is_asked_for_each_row():
    rows = [(1, False), (None, True), (3, True), (4, None)]
    assert aggregated("first where", *rows) is None
    assert aggregated("sum where", *rows) == 3
    assert aggregated("collect_list with nulls where", *rows) == [None, 3]
    assert aggregated("sum distinct where", (3, True), (3, True), (4, False)) == 3


@pytest.mark.parametrize("name", ["count distinct", "collect_set", "collect_list", "sum distinct"])
def test_a_row_changes_what_is_kept_in_place(name):
    of = Aggregates((name,), ((0,),))
    kept = of.begin()
    of.add(kept, (1,))
    collection = kept[0]
    of.add(kept, (2,))
    assert kept[0] is collection
