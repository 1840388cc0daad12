"""A column that does not exist is refused where it is written, if the schema is declared: no Spark is needed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from odradek.streams import App, F, PipelineError, col, header, tumbling


@dataclass
class Payment:
    order_id: str
    paid: float


@pytest.fixture
def app() -> App:
    return App("columns")


@pytest.fixture
def readings(app):
    return app.stream("readings", schema="sensor string, value double, at timestamp, place struct<city:string>")


@pytest.fixture
def payments(app):
    return app.stream("payments", schema=Payment)


@pytest.fixture
def sensors(app):
    return app.table("sensors", key="id", schema="id string, room string")


def refused(function) -> str:
    with pytest.raises(PipelineError) as told:
        function()
    assert "test_columns.py:" in str(told.value), "the line of the user's code"
    return str(told.value)


def process(stream, **options):
    return stream.process(out="sensor string", **options)(lambda key, rows: ())


@pytest.mark.parametrize(
    "step",
    [
        lambda readings, *_: readings.rekey("sensr"),
        lambda readings, *_: readings.rekey("value", "sensr"),
        lambda readings, *_: process(readings, key="sensr"),
        lambda readings, *_: readings.deduplicate("sensr", within="1 minute"),
        lambda readings, *_: readings.group_by("sensr").count(),
        lambda readings, *_: readings.group_by("sensr").window(tumbling("1 minute")).count(),
        lambda readings, *_: readings.group_by("sensr").reduce(lambda one, other: one, "sensor string"),
        lambda readings, payments, sensors: readings.join(sensors, on={"sensr": "id"}),
        lambda readings, payments, sensors: readings.join(payments, on={"sensr": "order_id"}, within="1 s"),
        lambda readings, *_: readings.filter(readings.sensr == "a"),
        lambda readings, *_: readings.select("sensr"),
        lambda readings, *_: readings.select(upper=F.upper(readings.sensr)),
        lambda readings, *_: readings.with_columns(twice=col("sensr") * 2),
        lambda readings, *_: readings.group_by("sensor").agg(n=F.max(readings.sensr)),
        lambda readings, *_: readings.to("copy", key="sensr"),
        lambda readings, *_: readings.to("copy", headers={"name": readings.sensr}),
        lambda readings, *_: readings.materialize("newest", key="sensr"),
    ],
)
def test_a_misspelt_column_is_refused_with_the_line_and_those_close_to_it(step, readings, payments, sensors):
    told = refused(lambda: step(readings, payments, sensors))
    assert "there is no column sensr" in told
    assert "close to it there are sensor" in told


def test_a_join_names_the_side_that_lacks_the_column(readings, payments):
    told = refused(lambda: readings.join(payments, on="sensor", within="1 minute"))
    assert "there is no column sensor in payments" in told
    assert "order_id" in told
    told = refused(lambda: readings.join(payments, on={"sensor": "ordr_id"}, within="1 minute"))
    assert "there is no column ordr_id in payments" in told
    assert "close to it there are order_id" in told


def test_columns_that_steps_add_rename_and_drop_are_known(app, readings, payments, sensors):
    roomy = readings.join(sensors, on={"sensor": "id"}).with_columns(half=readings.value / 2)
    roomy.select("sensor", room=F.upper("room"), half="half * 2").group_by("room").agg(n=F.count("*")).to("rooms")
    hourly = roomy.group_by("room").window(tumbling("1 hour")).agg(most=F.max("half"))
    hourly.window(tumbling("1 day")).agg(most=F.max(hourly.most)).to("daily")
    assert "no column value" in refused(lambda: hourly.rekey("value"))
    assert "no column room" in refused(lambda: roomy.drop("room").rekey("room"))
    assert "no column value" in refused(lambda: process(readings, key="sensor").rekey("value"))
    both = readings.join(payments, on={"sensor": "order_id"}, within="1 minute")
    both.rekey("sensor", "paid").to("both")
    assert "no column order_id" in refused(lambda: both.rekey("order_id"))
    again = both.through("again", key="sensor")
    again.group_by("paid").count().to("paid")
    assert "no column event_time" in refused(lambda: again.rekey("event_time"))


def test_what_spark_can_resolve_is_not_refused(app, readings):
    readings.filter(readings.SENSOR == "a").group_by("Sensor").count().to("any_case")
    readings.select("place.city", "*", "value * 2", F.col("`value`")).rekey("city").to("unknown_names")
    readings.select("sensor", twice=col("value") * 2, more=col("twice") + 1).to("by_alias")
    readings.filter(readings.place.city == "Bern").select("_key", "_time", "sensor").to("reserved")
    readings.with_columns(twice=F.transform(F.array("value"), lambda x: x * 2)).to("lambda")
    app.from_df(lambda spark: spark.readStream.format("rate").load(), time="timestamp").rekey("value").to("ticks")
    app.sql("select sensor, _time from readings").rekey("sensor").to("by_sql")


def test_the_headers_of_a_source_without_them(readings):
    told = refused(lambda: readings.with_columns(trace=header("trace")))
    assert "headers=True" in told
    assert "no column headers" not in told
    told = refused(lambda: readings.to("copy", headers=readings.headers))
    assert "headers=True" in told


def test_the_topic_of_a_record_is_a_column_under_the_name_that_is_given(app):
    logs = app.stream(pattern="logs-.*", schema="line string", topic_as="source")
    logs.group_by("source").count().to("lines")
    assert "source" in app.describe()
    told = refused(lambda: app.stream("a", schema="topic string", topic_as="topic"))
    assert "the schema has a column 'topic'" in told
    assert "_key" in refused(lambda: app.stream("b", schema="n int", topic_as="_key"))


def test_results_without_the_column_that_is_the_key(readings):
    made = readings.process(key="sensor", out="most double")(lambda key, rows: ())
    told = refused(lambda: made.to("most"))
    assert "there is no column sensor" in told
    assert "key=" in told
