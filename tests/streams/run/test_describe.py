"""An application in words and drawn, from its code alone."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from odradek.streams import App, F, tumbling
from odradek.streams.run.describe import as_data, describe, unwrapped
from odradek.streams.run.drawing import draw

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def app():
    app = App("fleet")
    positions = app.stream("positions", schema="driver string, kind string, speed double", dlq="fleet.dlq")
    drivers = app.table("drivers", key="id", schema="id string, name string")
    bad = positions[positions.kind != "Normal"]
    bad.to("bad", key="driver")
    counts = bad.group_by("driver").window(tumbling("1 minute", grace="5 seconds")).agg(n=F.count("*"))
    counts.join(drivers, on={"driver": "id"}, how="left").to("alerts", key="driver")
    positions.group_by("driver").agg(top=F.max("speed")).materialize("top-speeds")
    return app


def test_words_follow_rows_from_topics_to_sinks(app):
    text = describe(app.application)
    assert text.startswith("Application: fleet\n  topics on 127.0.0.1:9092, state in ./.odradek-streams/fleet\n")
    first, query = text.split("\n\n")
    assert "Query" not in first
    assert "\n  runs on the engine; group fleet.positions\n" in query
    assert "Sink: positions-dead-letters" in query
    exactly_once = "      exactly once for readers with read_committed\n"
    assert f"      bad (json) by driver\n      each row as it comes\n{exactly_once}    <-- filter-1" in query
    assert query.count(exactly_once) == 4
    assert "Step: aggregate-1 [state]  (test_describe.py:" in query
    assert "      alerts (json) by driver\n      final results; late rows are accepted for 5 seconds\n" in query
    assert "View: materialize-1" in query
    assert (
        f"      each change of a result, at most one per key and micro-batch\n{exactly_once}    <-- aggregate-2"
        in query
    )
    assert "results may depend on micro-batches" not in query


def test_data_has_the_same(app):
    data = as_data(app.application)
    [query] = data["queries"]
    assert (query["name"], query["by_engine"], query["foreign_step"]) == ("positions", True, None)
    assert (query["reads"], query["writes"]) == (
        ["drivers", "positions"],
        ["alerts", "bad", "fleet-top-speeds-changelog", "fleet.dlq"],
    )
    steps = {step["name"]: step for step in data["steps"]}
    assert (steps["aggregate-1"]["inputs"], steps["aggregate-1"]["stateful"]) == (["filter-1"], True)
    assert steps["to-2"]["promise"] == "final results; late rows are accepted for 5 seconds"
    assert steps["to-2"]["guarantee"] == "exactly once for readers with read_committed"
    assert steps["filter-1"]["guarantee"] is None
    assert not any(step["by_micro_batch"] for step in steps.values())


def a_timer(rows):
    return rows.process(key="a", out="a string", ttl="1 hour", timers="processing")(lambda key, rows: ())


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (lambda rows: rows[rows.a != "x"], "exactly once for readers with read_committed"),
        (lambda rows: rows.map(dict, "a string"), "exactly once for readers with read_committed, if map-1 returns"),
        (lambda rows: rows.with_columns(at=F.now()), "not exactly once: columns-1: now gives other values"),
        (lambda rows: rows.with_columns(x=F.rand()), "not exactly once: columns-1: rand gives other values"),
        (lambda rows: rows[F.rand() < 0.1], "not exactly once: filter-1: rand gives other values"),
        (a_timer, "not exactly once: process-1: its timers follow the clock of the machine"),
    ],
)
def test_description_says_whether_a_sink_writes_exactly_once(steps, told):
    app = App("once")
    steps(rows_of(app)).to("made")
    assert f"      {told}" in describe(app.application)


def test_functions_are_called_at_least_once():
    app = App("called")
    rows_of(app).foreach(print)
    assert "      at least once: the function is called again" in describe(app.application)


def test_application_without_transactions_writes_at_least_once():
    app = App("twice", delivery="at-least-once")
    rows_of(app).to("made")
    assert "      at least once: the application has delivery='at-least-once'\n" in describe(app.application)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("inner", "each row as it comes; late rows are accepted for 10 seconds"),
        (
            "left",
            "each row as it comes, one without a partner when none can come any more; "
            "late rows are accepted for 10 seconds",
        ),
    ],
)
def test_a_join_of_streams_promises_rows_as_they_come(how, told):
    app = App("joined")
    rows_of(app).join(app.stream("other", schema="a string"), on="a", within="1 minute", how=how).to("pairs")
    assert f"      {told}\n" in describe(app.application)


def test_a_function_with_timers_promises_rows_as_they_come():
    app = App("timed")
    rows_of(app).process(key="a", out="a string", ttl="1 hour")(lambda key, rows: ()).to("made")
    assert "      each row as it comes; late rows are accepted for 10 seconds\n" in describe(app.application)


def rows_of(app: App):
    return app.stream("in", schema="a string, n int")


def static(app: App):
    return app.static(lambda spark: spark.range(3))


def counted(stream, **aggregates):
    return stream.group_by("a").window(tumbling("1 minute")).agg(**aggregates)


MARKED = {
    "through": (
        lambda app: counted(rows_of(app).through("between"), n=F.count("*")).to("out"),
        "between",
        "tasks write the topic of through() side by side, and the next step reads in that order",
    ),
    "map_pandas": (
        lambda app: rows_of(app).map_pandas(lambda frame: frame, schema="a string").to("out"),
        "map_pandas-1",
        "the function gets pieces of a micro-batch",
    ),
    "a static join": (
        lambda app: rows_of(app).join(static(app), on={"n": "id"}).to("out"),
        "static_join-1",
        "Spark reads the DataFrame again for each micro-batch",
    ),
    "sql": (
        lambda app: app.sql("select a from s", s=rows_of(app)).to("out"),
        "sql-1",
        "Spark runs the SQL on each micro-batch",
    ),
    "timers by the clock": (
        lambda app: rows_of(app).process(key="a", out="a string", timers="processing")(_ignore).to("out"),
        "process-1",
        "timers fire by the clock of the machine, at the end of a micro-batch",
    ),
    "foreach_batch": (
        lambda app: rows_of(app).foreach_batch(_ignore),
        "foreach_batch-1",
        "the function is called once per micro-batch",
    ),
    "an aggregate of Spark": (
        lambda app: counted(rows_of(app), m=F.median("n")).to("out"),
        "aggregate-1",
        "Spark computes median, and drops late rows micro-batch by micro-batch",
    ),
    "an aggregate in the order of rows": (
        lambda app: counted(rows_of(app), m=F.median("n"), l=F.collect_list("n")).to("out"),
        "aggregate-1",
        "Spark gives the rows to collect_list in no fixed order",
    ),
    "a window beside what only Spark runs": (
        lambda app: counted(app.sql("select a, n, _time from s", s=rows_of(app)), n=F.count("*")).to("out"),
        "aggregate-1",
        "Spark moves event time, and drops late rows, micro-batch by micro-batch",
    ),
}


def _ignore(*_):
    return None


@pytest.mark.parametrize("name", MARKED)
def test_steps_whose_results_may_depend_on_micro_batches_are_marked(name):
    build, step, why = MARKED[name]
    app = App("marked")
    build(app)
    marked = {step["name"]: step["by_micro_batch"] for step in as_data(app.application)["steps"]}
    assert marked[step] == why
    assert f"    ! results may depend on micro-batches: {why}\n" in describe(app.application) + "\n"
    assert marked["in"] is None


def test_the_engine_has_an_order_for_rows():
    app = App("ordered")
    counted(rows_of(app), l=F.collect_list("n"), f=F.first("n")).to("out")
    assert "micro-batches" not in describe(app.application)


def test_which_queries_are_left_to_spark_and_why():
    app = App("mixed")
    app.stream("quick", schema="a string").to("copied")
    rows_of(app).foreach_batch(_ignore, name="rest")
    left, quick = sorted(as_data(app.application)["queries"], key=lambda query: query["name"])
    assert (quick["name"], quick["by_engine"], quick["why_foreign"]) == ("quick", True, None)
    assert (left["by_engine"], left["foreign_step"]) == (False, "rest")
    assert (
        "runs on Spark's own operators, because of rest: its function takes a DataFrame of Spark; group mixed.in"
        in describe(app.application)
    )


def test_the_drawing_has_every_topic_once_and_every_step(app):
    picture = ET.fromstring(draw(app.application))
    names = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == "name"]
    assert sorted(names) == sorted(
        ["positions", "drivers", "bad", "alerts", "fleet.dlq", "top-speeds"]
        + ["filter-1", "aggregate-1", "aggregate-2", "table_lookup-1"]
    )
    arrows = [path for path in picture.iter(f"{SVG}path") if path.get("class").startswith("arrow")]
    assert len(arrows) == 9
    assert draw(app.application) == draw(app.application)


def test_what_the_user_writes_cannot_break_the_picture():
    app = App("odd")
    app.stream("t", schema="a string").filter("a = '<script>&\"' and a < 'b'").to("u")
    assert "<script>" not in draw(app.application)
    ET.fromstring(draw(app.application))


def test_a_topic_between_two_queries_is_one_pill():
    app = App("chain")
    app.stream("a", schema="x string").to("b")
    app.stream("b", schema="x string").to("c")
    picture = ET.fromstring(draw(app.application))
    names = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == "name"]
    assert names == ["a", "b", "c"]


def test_an_application_without_sinks_says_so():
    app = App("empty")
    app.stream("t")
    assert "no stream or table ends in a sink" in describe(app.application)
    ET.fromstring(draw(app.application))


@pytest.mark.parametrize(
    ("text", "bare"), [("(a > 1)", "a > 1"), ("(a) & (b)", "(a) & (b)"), ("a", "a"), ("", ""), ("((a) | b)", "(a) | b")]
)
def test_outer_brackets(text, bare):
    assert unwrapped(text) == bare
