"""Expressions are written and printed without Spark."""

from __future__ import annotations

import pytest

from odradek.streams import App, F, PipelineError, col, lit
from odradek.streams.graph.expressions import column_of


def test_an_expression_prints_as_it_was_written():
    stream = App("t").stream("events", schema="speed double")
    fast = (stream.speed > 80) & ~stream["driver"].isNull() | (1 + col("a") * 2 == lit("x"))
    assert repr(fast) == "(((speed > 80) & ~(driver.isNull())) | ((1 + (a * 2)) == 'x'))"
    assert repr(F.count("*").alias("n")) == "count(*).alias('n')"
    assert repr(stream.position.latitude) == "position.latitude"
    assert repr(F.when(col("a") > 1, "big").otherwise("small")) == "when((a > 1), big).otherwise('small')"


def test_a_function_that_spark_does_not_have_is_named_with_its_neighbour():
    with pytest.raises(AttributeError, match=r"no function 'coutn'; did you mean F\.count\?"):
        _ = F.coutn


@pytest.mark.parametrize(
    "use", [bool, lambda column: column and True, lambda column: 1 < column < 3, lambda column: not column]
)
def test_a_column_is_neither_true_nor_false(use):
    with pytest.raises(PipelineError, match=r"neither true nor false.*(?s:.*)&"):
        use(col("a"))


def test_a_misspelt_verb_says_which_was_meant():
    stream = App("t").stream("events", schema="speed double")
    with pytest.raises(PipelineError, match="did you mean filter"):
        stream.fliter("speed > 3")


def test_a_column_cannot_be_iterated():
    with pytest.raises(TypeError, match="explode"):
        list(col("a"))


def test_user_functions_are_recorded_too():
    @F.udf("int")
    def doubled(x):
        return 2 * x

    assert repr(doubled(col("speed"))) == "doubled(speed)"
    assert repr(F.udf(len, "int")("name")) == "len(name)"


def test_expressions_become_columns_of_spark(spark):
    frame = spark.sql("select 90 as speed, 'Ann' as name, array('a', 'b') as tags, named_struct('x', 7) as position")
    stream = App("t").stream("events", schema="speed double")
    shout = F.udf(lambda text: text.upper() + "!", "string")
    wanted = {
        "fast": (stream.speed > 80) & stream["name"].isin("Ann", "Bo") & ~stream.name.isNull(),
        "reflected": 100 - stream.speed,
        "tags": F.transform(stream.tags, lambda tag: F.concat(F.upper(tag), lit("?"))),
        "first": stream.tags[0],
        "x": stream.position.x + 1,
        "kind": F.when(stream.speed > 80, "fast").otherwise("slow"),
        "shout": shout(stream.name),
        "plain": "speed * 2",
        "literal": 3,
    }
    row = frame.select(*(column_of(value).alias(name) for name, value in wanted.items())).collect()[0]
    assert row.asDict() == {
        "fast": True,
        "reflected": 10,
        "tags": ["A?", "B?"],
        "first": "a",
        "x": 8,
        "kind": "fast",
        "shout": "ANN!",
        "plain": 180,
        "literal": 3,
    }
