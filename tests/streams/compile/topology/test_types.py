"""Types of columns that meet: keys that are compared, streams that are merged."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from odradek.pipeline.errors import PipelineError
from odradek.streams import App
from odradek.streams.api.rows import node_of
from odradek.streams.compile.topology.hosting import Entrance, Inputs, host, same_key
from odradek.streams.compile.topology.levels import topology
from odradek.streams.compile.topology.projecting import LIVE, travelled

INT, LONG, DOUBLE, FLOAT, STRING = T.IntegerType(), T.LongType(), T.DoubleType(), T.FloatType(), T.StringType()


def decimal(precision, scale):
    return T.DecimalType(precision, scale)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (INT, LONG, True),
        (STRING, STRING, True),
        (T.ArrayType(INT, True), T.ArrayType(INT, False), True),
        (INT, DOUBLE, False),
        (INT, STRING, False),
        (FLOAT, DOUBLE, False),
        (decimal(10, 2), decimal(10, 0), False),
        (decimal(10, 2), decimal(12, 2), True),
        (T.TimestampType(), T.DateType(), False),
        (T.TimestampType(), T.TimestampNTZType(), False),
    ],
)
def test_keys_are_compared_where_equal_values_are_written_alike(one, other, same):
    assert same_key(one, other) is same_key(other, one) is same


def joined_types(how, left, right):
    app = App("t")
    orders = app.stream("orders", schema="id int, at timestamp", time="at")
    if how == "streams":
        node = node_of(orders.join(app.stream("p", schema="order int"), on={"id": "order"}, within="1 hour"))
    else:
        node = node_of(orders.join(app.table("p", key="order", schema="order int"), on={"id": "order"}))
    schemas = [T.StructType([T.StructField(name, kind)]) for name, kind in (("id", left), ("order", right))]
    entrances = tuple(Entrance(columns=(), shard=None, schema=schema) for schema in schemas)
    return host(node, Inputs(ports=(0, 1), entrances=entrances), updates=False, finals=True, each_change=False)


@pytest.mark.parametrize("how", ["streams", "table"])
def test_a_join_on_keys_that_never_match_is_refused(how):
    joined_types(how, INT, LONG)
    with pytest.raises(PipelineError) as told:
        joined_types(how, INT, decimal(10, 2))
    assert "id is int, order is decimal(10,2)" in str(told.value)
    assert "cast" in str(told.value)


@pytest.mark.spark
def test_merged_streams_have_the_same_types(spark):
    app = App("t")
    a, b = (app.stream(topic, schema="n int") for topic in "ab")
    a.merge(b).to("both")
    one, other = topology(app.graph.sinks).lanes
    merged = {}

    def names(lane, schema):
        return travelled(spark.createDataFrame([], f"{LIVE} boolean, {schema}"), lane, merged).columns

    assert names(one, "n bigint, m int") == ["n", "m", LIVE]
    assert names(other, "m int, n bigint") == ["n", "m", LIVE]
    with pytest.raises(PipelineError) as told:
        names(other, "n int, m int")
    assert "n is bigint in one, int in another" in str(told.value)
    assert "a.merge(b)" in str(told.value)
