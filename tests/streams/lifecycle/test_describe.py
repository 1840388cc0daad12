"""An application in words and drawn, from its code alone."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from odradek.streams import App, F, tumbling
from odradek.streams.lifecycle.describe import as_data, describe, unwrapped
from odradek.streams.lifecycle.drawing import draw

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
    text = describe(app)
    assert text.startswith("Application: fleet\n  topics on 127.0.0.1:9092, state in ./.odradek-streams/fleet\n")
    first, copies, alerts, speeds = text.split("\n\n")
    assert "\n  each row as it comes; group fleet.positions\n" in copies
    assert "Sink: positions-dead-letters" in copies
    assert "    <-- positions\n    --> to-1" in copies
    assert "final results, rows may be 5 seconds late; group fleet.table_lookup-1" in alerts
    assert "Step: aggregate-1 [state]  (test_describe.py:" in alerts
    assert "View: materialize-1" in speeds
    assert "each change of a result" in speeds
    assert "Query" not in first


def test_data_has_the_same(app):
    data = as_data(app)
    assert [query["name"] for query in data["queries"]] == ["positions", "table_lookup-1", "aggregate-2-updates"]
    [counts] = [step for step in data["steps"] if step["name"] == "aggregate-1"]
    assert (counts["inputs"], counts["stateful"]) == (["filter-1"], True)


def test_the_drawing_has_every_topic_once_and_every_step(app):
    picture = ET.fromstring(draw(app))
    names = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == "name"]
    assert sorted(names) == sorted(
        ["positions", "drivers", "bad", "alerts", "fleet.dlq", "top-speeds"]
        + ["filter-1", "aggregate-1", "aggregate-2", "table_lookup-1"]
    )
    arrows = [path for path in picture.iter(f"{SVG}path") if path.get("class").startswith("arrow")]
    assert len(arrows) == 9
    assert draw(app) == draw(app)


def test_what_the_user_writes_cannot_break_the_picture():
    app = App("odd")
    app.stream("t", schema="a string").filter("a = '<script>&\"' and a < 'b'").to("u")
    assert "<script>" not in draw(app)
    ET.fromstring(draw(app))


def test_a_topic_between_two_queries_is_one_pill():
    app = App("chain")
    app.stream("a", schema="x string").to("b")
    app.stream("b", schema="x string").to("c")
    picture = ET.fromstring(draw(app))
    names = [text.text for text in picture.iter(f"{SVG}text") if text.get("class") == "name"]
    assert names == ["a", "b", "c"]


def test_an_application_without_sinks_says_so():
    app = App("empty")
    app.stream("t")
    assert "no stream or table ends in a sink" in describe(app)
    ET.fromstring(draw(app))


@pytest.mark.parametrize(
    ("text", "bare"), [("(a > 1)", "a > 1"), ("(a) & (b)", "(a) & (b)"), ("a", "a"), ("", ""), ("((a) | b)", "(a) | b")]
)
def test_outer_brackets(text, bare):
    assert unwrapped(text) == bare
