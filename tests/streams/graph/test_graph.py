"""What is written becomes a graph: names, lines, queries. No Spark."""

from __future__ import annotations

from datetime import timedelta

import pytest

from odradek.streams import App, F, PipelineError, hopping, session, sliding, tumbling
from odradek.streams.api.rows import node_of
from odradek.streams.graph.micro_batches import why_foreign
from odradek.streams.graph.sinks import TopicSink


def trucking(**more: object) -> App:
    """`more`: aggregates beside the count; with one that only Spark knows there is a query per trunk."""
    app = App("trucking")
    geo = app.stream("geo", schema="driver int, kind string, at timestamp", time="at", dlq="trucking.dlq")
    speed = app.stream("speed", schema="driver int, speed double, at timestamp", time="at", late="30 seconds")
    drivers = app.table("drivers", key="id", schema="id int, name string")
    bad = geo[geo.kind != "Normal"]
    rich = bad.join(speed, on="driver", within="1 second").join(drivers, on={"driver": "id"}, how="left")
    alerts = (
        rich.group_by("driver", "name", name="alerts")
        .window(tumbling("3 minutes", grace="10 seconds"))
        .agg(n=F.count("*"), **more)
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


def test_sinks_share_a_query_when_they_share_a_source_or_step():
    app = trucking()
    app.stream("weather", schema="sky string").to("skies")
    trucks, weather = app.queries()
    assert [sink.name for sink in trucks.sinks] == ["geo-dead-letters", "to-1", "materialize-1", "to-2"]
    assert (trucks.name, trucks.by_engine) == ("geo", True)
    assert trucks.reads == {"geo", "speed", "drivers"}
    assert trucks.writes == {"trucking.dlq", "alerts", "trucking-alerts-by-driver-changelog", "bad"}
    assert (weather.name, [sink.name for sink in weather.sinks]) == ("weather", ["to-3"])


def test_sinks_of_what_is_sparks_alone_share_a_query_when_they_share_a_trunk():
    queries = {query.name: query for query in trucking(typical=F.median("speed")).queries()}
    assert {query.foreign.name for query in queries.values()} == {"alerts"}
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
    prices.group_by("sku", name="price").agg(usual=F.median("price")).materialize("usual")
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
    [query] = trucking().queries()
    assert query.grace == timedelta(seconds=30)  # the join waits for what its sources say about lateness
    queries = {query.name: query for query in trucking(typical=F.median("speed")).queries()}
    assert queries["alerts"].grace == timedelta(seconds=30)
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
    assert [query.name for query in app.queries()] == ["clicks", "counts"]
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


def test_what_comes_back_through_a_topic_is_as_late_as_what_was_sent():
    app = App("t")
    left, right = (app.stream(name, schema="a int", late=late) for name, late in (("l", "5 s"), ("r", "20 s")))
    left.through("same")
    left.join(right, on="a", within=("1 s", "1 minute"), how="left").where("a > 1").through("joined")
    late = {node.topic: node.late for node in app.graph.topics}
    assert late["same"] == timedelta(seconds=5)
    assert late["joined"] == timedelta(seconds=80), "a row without a partner comes when nobody can come any more"


def test_several_topics_and_patterns_are_one_source():
    app = App("many")
    both = app.stream(["orders", "returns", "orders"], schema="id int")
    matched = app.stream(pattern="clicks-.*", schema="id int")
    both.to("both")
    matched.to("clicks")
    first, second = app.queries()
    assert (first.name, second.name) == ("orders-returns", "clicks")
    assert first.reads == {"orders", "returns"}
    assert second.reads == {"topics matching clicks-.*"}
    assert [node.summary for node in app.graph.topics] == [
        "orders, returns (json)",
        "topics matching clicks-.* (json)",
    ]
    assert second.takes_from(["clicks-new"])
    assert not second.takes_from(["my-clicks-new", "clicks"])
    assert "topics matching clicks-.*" in app.describe()


def test_a_writer_comes_before_the_pattern_that_reads_it():
    app = App("flow")
    app.stream(pattern="clean-.*", schema="id int").to("all")
    app.stream("raw", schema="id int").to("clean-raw")
    assert [query.name for query in app.queries()] == ["raw", "clean"]


def test_a_pattern_does_not_take_what_its_query_writes():
    app = App("circle")
    app.stream(pattern="orders.*", schema="id int", dlq="orders-bad").to("copies")
    with pytest.raises(PipelineError, match="also matches 'orders-bad', which this query writes"):
        app.queries()


def test_headers_and_retries_are_described():
    app = App("told")
    clicks = app.stream("clicks", schema="user string", headers=True)
    clicks.to("copies", headers=clicks.headers)
    clicks.to("named", headers={"user": "user", "by": "'us'"})
    clicks.foreach(print, retries=3, backoff="2 seconds", dlq="failed")
    assert [node.summary for node in app.graph.nodes] == [
        "clicks (json) with headers",
        "copies (json) with headers headers",
        "named (json) with headers user, by",
        "print, 3 retries from 2 seconds on",
        "failed",
    ]
    (query,) = app.queries()
    assert query.writes == {"copies", "named", "failed"}


def test_a_side_output_for_late_rows_is_a_sink():
    app = App("late")
    clicks = app.stream("clicks", schema="user string")
    clicks.group_by("user", name="counts").window(tumbling("1 minute"), late_to="late-clicks").count().to("counts")
    (query,) = app.queries()
    assert query.writes == {"late-clicks", "counts"}
    assert "Sink: counts-late" in app.describe()
    assert "late-clicks (json), rows too late for counts" in app.describe()


def test_a_query_is_named_after_the_stream_that_was_written_first():
    app = App("shop")
    views, buys = app.stream("views", schema="user string"), app.stream("buys", schema="user string")
    views.to("seen")
    buys.to("bought")
    views.merge(buys).deduplicate("user", within="1 minute").to("once")
    [query] = app.queries()
    assert query.name == "views"
    assert [sink.name for sink in query.sinks] == ["to-1", "to-2", "to-3"]


def test_a_query_is_named_after_the_stream_that_is_declared_first_whatever_the_order_of_sinks():
    def name(*, copied: bool) -> str:
        app = App("t")
        users = app.table("users", key="id", schema="id int")
        a, b = (app.stream(topic, schema="id int") for topic in ("a", "b"))
        if copied:
            b.to("copy")
            users.materialize("users")
        a.join(b, on="id", within="1 minute").join(users, on="id").to("j")
        (query,) = app.queries()
        return query.name

    assert name(copied=False) == name(copied=True) == "a"


@pytest.mark.parametrize("column", [F.explode("tags"), "explode_outer(tags) as tag", "posexplode(tags) as (n, tag)"])
def test_a_function_that_makes_several_rows_of_one_is_sparks(column):
    app = App("t")
    app.stream("posts", schema="id int, tags array<string>").select("id", column).to("tags")
    (query,) = app.queries()
    assert query.foreign.name == "select-1"
    assert why_foreign(query.foreign).startswith("only Spark makes several rows of one")


def test_columns_that_are_added_may_be_several_rows_of_one():
    app = App("t")
    app.stream("posts", schema="id int, tags array<string>").with_columns(tag=F.explode("tags")).to("tags")
    (query,) = app.queries()
    assert not query.by_engine


@pytest.mark.parametrize("value", [F.first("x", ignorenulls=True), F.sum_distinct("x"), F.expr("sum(distinct x)")])
def test_aggregates_of_distinct_values_and_without_nulls_are_the_engines(value):
    app = App("t")
    app.stream("rows", schema="id int, x int").group_by("id").agg(n=value).to("out")
    (query,) = app.queries()
    assert query.by_engine
