"""Aggregates taken apart into calls that the engine has."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from odradek.pipeline.errors import PipelineError
from odradek.streams.compile.topology.aggregating import SYNONYMS, decomposed
from odradek.streams.engine.steps.aggregates import FUNCTIONS
from odradek.streams.graph.planning import FOREIGN_AGGREGATES

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def rows(spark):
    return spark.createDataFrame([], "x int, y int, price decimal(10,2)")


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (lambda: F.first("x"), "first"),
        (lambda: F.first("x", ignorenulls=True), "first skipping nulls"),
        (lambda: F.expr("last_value(x) ignore nulls"), "last skipping nulls"),
        (lambda: F.expr("any_value(x, true)"), "first skipping nulls"),
        (lambda: F.expr("sum(distinct x)"), "sum distinct"),
        (lambda: F.sum_distinct("x"), "sum distinct"),
        (lambda: F.count_distinct("x", "y"), "count distinct"),
        (lambda: F.expr("first(x) filter (where y > 1)"), "first where"),
        (lambda: F.expr("count(*) filter (where y > 1)"), "count where"),
        (lambda: F.expr("collect_list(x) respect nulls"), "collect_list with nulls"),
        (lambda: F.expr("max_by(x, y)"), "max_by"),
    ],
)
def test_a_call_has_the_name_of_the_function_that_the_engine_runs(rows, column, name):
    assert [call.name for call in decomposed(rows, (column(),)).calls] == [name]


@pytest.mark.parametrize("text", ["max_by(x, y, 2)", "median(x)"])
def test_a_function_that_the_engine_does_not_have_is_refused_in_words(rows, text):
    with pytest.raises(PipelineError, match="the engine has no aggregate function"):
        decomposed(rows, (F.expr(text),))


def test_every_aggregate_function_of_spark_is_known_to_the_engine_or_left_to_spark(spark):
    registry = spark._jsparkSession.sessionState().functionRegistry()
    names = registry.listFunction().iterator()
    found = set()
    while names.hasNext():
        name = names.next()
        if registry.lookupFunction(name).get().getGroup() == "agg_funcs":
            found.add(name.funcName())
    assert found > {"sum", "median"}
    assert found <= {*FUNCTIONS, *SYNONYMS, *FOREIGN_AGGREGATES}
