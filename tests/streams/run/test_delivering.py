"""What the sinks of a query take of a micro-batch, as far as that shows without Spark."""

from __future__ import annotations

from odradek.streams import App, F, tumbling
from odradek.streams.api.rows import node_of
from odradek.streams.run.delivering import mapped_twice, takes_changes


def test_a_view_per_window_loses_what_a_filter_no_longer_accepts_a_view_per_driver_does_not():
    app = App("t")
    rows = app.stream("in", schema="driver string, speed double")
    counts = rows.group_by("driver").window(tumbling("1 minute")).agg(count=F.count("*"), usual=F.median("speed"))
    counts.where("count < 3").materialize("by-window")
    counts.where("count < 3").materialize("by-driver", key="driver")
    counts.to("out", emit="updates")
    key = ["driver", "window_start", "window_end"]
    schema = "driver string, window_start timestamp, window_end timestamp"
    counts.where("count < 3").map(lambda row: row, schema).materialize("by-function", key=key)
    (query,) = app.queries()
    assert query.name == "aggregate-1-updates"
    assert [takes_changes(sink, query) for sink in query.sinks] == [True, False, False, False]


def test_a_python_function_that_several_take_is_called_once():
    app = App("t")
    stream = app.stream("in", schema="a int")
    for step in (stream.map(lambda row: row, "a int"), stream.map_pandas(lambda frame: frame, "a int")):
        step.to(f"{node_of(step).name}-all")
        step.where("a > 1").to(f"{node_of(step).name}-some")
    stream.map(lambda row: row, "a int").to("one")
    (query,) = app.queries()
    assert [node.name for node in mapped_twice(query)] == ["map-1", "map_pandas-1"]
