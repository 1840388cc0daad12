"""What is written becomes a graph: names, lines, queries. No Spark."""

from __future__ import annotations

from datetime import timedelta

import pytest

from odradek.streams import App, F, PipelineError, hopping, session, sliding, tumbling
from odradek.streams.compiling import merges_sources
from odradek.streams.delivering import mapped_twice, takes_changes
from odradek.streams.rows import node_of
from odradek.streams.sinks import TopicSink


def trucking() -> App:
    app = App("trucking")
    geo = app.stream("geo", schema="driver int, kind string", time="at", dlq="trucking.dlq")
    speed = app.stream("speed", schema="driver int, speed double", time="at", late="30 seconds")
    drivers = app.table("drivers", key="id", schema="id int, name string")
    bad = geo[geo.kind != "Normal"]
    rich = bad.join(speed, on="driver", within="1 second").join(drivers, on={"driver": "id"}, how="left")
    alerts = (
        rich.group_by("driver", "name", name="alerts")
        .window(tumbling("3 minutes", grace="10 seconds"))
        .agg(n=F.count("*"))
        .where("n >= 5")
    )
    alerts.to("alerts")
    alerts.materialize("alerts-by-driver", key="driver")
    bad.to("bad")
    return app


def test_steps_are_named_by_kind_and_order_or_as_the_user_says():
    assert [node.name for node in trucking().graph.nodes] == [
        "geo",
        "geo-dead-letters",
        "speed",
        "drivers",
        "filter-1",
        "stream_join-1",
        "table_lookup-1",
        "alerts",
        "filter-2",
        "to-1",
        "materialize-1",
        "to-2",
    ]


def test_a_step_knows_its_line_and_says_what_it_does():
    join = next(node for node in trucking().graph.nodes if node.name == "stream_join-1")
    assert join.origin.file == __file__
    assert 'bad.join(speed, on="driver"' in join.origin.code
    assert join.summary == "inner on driver within 1 second"


def test_sinks_share_a_query_when_they_share_a_trunk():
    queries = {query.name: query for query in trucking().queries()}
    assert {name: [sink.name for sink in query.sinks] for name, query in queries.items()} == {
        "geo": ["geo-dead-letters", "to-2"],
        "alerts": ["to-1"],
        "alerts-updates": ["materialize-1"],
    }
    assert queries["alerts"].reads == {"geo", "speed", "drivers"}
    assert queries["alerts-updates"].writes == {"trucking-alerts-by-driver-changelog"}


def test_two_queries_never_share_a_name_and_so_a_checkpoint():
    app = App("t")
    prices = app.stream("price-updates", schema="sku string, price double")
    prices.to("copies")
    prices.group_by("sku", name="price").agg(most=F.max("price")).materialize("most")
    with pytest.raises(PipelineError, match="two queries would be called price-updates") as refused:
        app.queries()
    assert 'name="price"' in refused.value.origin.code


def test_a_view_says_how_long_its_topic_keeps_rows():
    app = App("t")
    clicks = app.stream("clicks", schema="user string")
    hourly = clicks.group_by("user").window(tumbling("1 hour")).count()
    hourly.materialize("all")
    hourly.materialize("lately", keep="2 days")
    everything, lately = app.graph.sinks
    assert everything.config == {"cleanup.policy": "compact"}
    assert lately.config == {"cleanup.policy": "compact,delete", "retention.ms": "172800000"}
    assert lately.summary.endswith("changelog t-lately-changelog, kept for 2 days")


def test_the_longest_wait_of_the_steps_with_state_is_the_watermark_of_the_query():
    queries = {query.name: query for query in trucking().queries()}
    assert queries["alerts"].grace == timedelta(seconds=30)  # the join waits for what its sources say about lateness
    assert queries["geo"].grace is None


def test_writers_of_a_topic_come_before_its_readers():
    app = App("t")
    numbers = app.stream("numbers", schema="n int")
    app.stream("squares", schema="n int").to("out")
    numbers.select(n=numbers.n * numbers.n).to("squares")
    assert [query.name for query in app.queries()] == ["numbers", "squares"]


def test_through_a_topic_and_back_makes_two_queries():
    app = App("t")
    counts = app.stream("clicks", schema="user string").group_by("user").count().through("counts")
    other = app.table("users", key="user", schema="user string, name string")
    counts.join(other).to("named")
    assert [query.name for query in app.queries()] == ["aggregate-1-updates", "table_join-1"]
    sent = next(node for node in app.graph.nodes if isinstance(node, TopicSink) and node.topic == "counts")
    assert sent.config == {"cleanup.policy": "compact"}
    assert sent.key == ("user",)


def test_the_key_of_a_record_is_what_was_said_last():
    app = App("t")
    stream = app.stream("in", schema="a int, b int")
    stream.to("as-it-came")
    stream.rekey("a").to("rekeyed")
    stream.rekey("a").to("told", key=["b", "a"])
    stream.group_by("b").count().to("counted")
    stream.group_by("b").window(tumbling("1 minute")).count().to("windowed")
    assert {sink.topic: sink.key for sink in app.graph.sinks} == {
        "as-it-came": (),
        "rekeyed": ("a",),
        "told": ("b", "a"),
        "counted": ("b",),
        "windowed": ("b", "window_start", "window_end"),
    }


def test_branches_take_the_first_that_fits_and_the_rest():
    stream = App("t").stream("in", schema="a int")
    fast, slow, rest = stream.branch(stream.a > 80, "a > 0")
    assert node_of(fast).summary == "(a > 80)"
    assert node_of(slow).summary == "(a > 0 & ~(coalesce((a > 80), lit(False))))"
    assert node_of(rest).summary == "((True & ~(coalesce((a > 80), lit(False)))) & ~(coalesce(a > 0, lit(False))))"


def test_a_name_is_one_step_of_letters_that_directories_take():
    app = App("t")
    app.stream("in", schema="a int", name="source")
    with pytest.raises(PipelineError, match="two steps called 'source'"):
        app.stream("other", schema="a int", name="source")
    with pytest.raises(PipelineError, match="cannot be a name"):
        app.stream("other", schema="a int", name="a/b")
    for name in ("a b", "a/b", "", ".", ".."):
        with pytest.raises(PipelineError, match="cannot be the name of an application"):
            App(name)
    assert App("..shop.v2").name == "..shop.v2"


def test_windows_say_what_they_are():
    assert [
        str(window)
        for window in (
            tumbling("3 minutes", grace="10 s"),
            hopping("5 minutes", every="1 minute"),
            sliding("20 s"),
            session("30 s"),
        )
    ] == [
        "tumbling 3 minutes, grace 10 seconds",
        "hopping 5 minutes every 1 minute",
        "sliding 20 seconds",
        "session 30 seconds",
    ]
    with pytest.raises(PipelineError, match="leaves gaps"):
        hopping("1 minute", every="5 minutes")
    with pytest.raises(PipelineError, match="above zero"):
        tumbling("0 s")


def test_a_view_per_window_loses_what_a_filter_no_longer_accepts_a_view_per_driver_does_not():
    app = App("t")
    counts = app.stream("in", schema="driver string").group_by("driver").window(tumbling("1 minute")).count()
    counts.where("count < 3").materialize("by-window")
    counts.where("count < 3").materialize("by-driver", key="driver")
    counts.to("out", emit="updates")
    key = ["driver", "window_start", "window_end"]
    counts.where("count < 3").map(lambda row: row, "driver string").materialize("by-function", key=key)
    (query,) = app.queries()
    assert [takes_changes(sink, query) for sink in query.sinks] == [True, False, False, False]


def test_what_comes_back_through_a_topic_is_as_late_as_what_was_sent():
    app = App("t")
    left, right = (app.stream(name, schema="a int", late=late) for name, late in (("l", "5 s"), ("r", "20 s")))
    left.through("same")
    left.join(right, on="a", within=("1 s", "1 minute"), how="left").where("a > 1").through("joined")
    late = {node.topic: node.late for node in app.graph.topics}
    assert late["same"] == timedelta(seconds=5)
    assert late["joined"] == timedelta(seconds=80), "a row without a partner comes when nobody can come any more"


def test_streams_that_merge_have_a_time_each_and_branches_of_one_stream_share_it():
    app = App("t")
    one, other = app.stream("one", schema="a int"), app.stream("other", schema="a int")
    low, high = one.branch("a < 5")
    assert merges_sources(node_of(one.merge(other).where("a > 1")))
    assert not merges_sources(node_of(low.merge(high)))
    assert not merges_sources(node_of(one.merge(app.table("rests", key="a", schema="a int").to_stream())))
    assert not merges_sources(node_of(one.where("a > 1")))
    assert not merges_sources(node_of(one.merge(other).map_pandas(lambda frame: frame, "a int")))


def test_a_python_function_that_several_take_is_called_once():
    app = App("t")
    stream = app.stream("in", schema="a int")
    for step in (stream.map(lambda row: row, "a int"), stream.map_pandas(lambda frame: frame, "a int")):
        step.to(f"{node_of(step).name}-all")
        step.where("a > 1").to(f"{node_of(step).name}-some")
    stream.map(lambda row: row, "a int").to("one")
    (query,) = app.queries()
    assert [node.name for node in mapped_twice(query)] == ["map-1", "map_pandas-1"]
