"""What cannot run is refused where it is written: what, why, what to write instead, and the line."""

from __future__ import annotations

import pytest

from odradek.streams import App, F, PipelineError, session, sliding, tumbling


@pytest.fixture
def app() -> App:
    return App("t")


@pytest.fixture
def clicks(app):
    return app.stream("clicks", schema="user string, page string")


@pytest.fixture
def views(app):
    return app.stream("views", schema="user string, page string")


@pytest.fixture
def users(app):
    return app.table("users", key="id", schema="id string, name string")


def refused(function) -> str:
    with pytest.raises(PipelineError) as told:
        function()
    assert "test_mistakes.py:" in str(told.value), "the line of the user's code"
    assert told.value.instead, "what to write instead"
    return str(told.value)


def test_a_join_of_streams_without_a_bound_of_time(clicks, views):
    told = refused(lambda: clicks.join(views, on="user"))
    assert "needs a bound of time" in told
    assert "clicks.join(views" in told
    assert """.join(other, on="user", within="5 seconds")""" in told


def test_a_join_without_columns(clicks, views):
    told = refused(lambda: clicks.join(views, within="1 s"))
    assert "columns that must be equal" in told
    assert 'on="user"' in told, "a column that both have"


def test_a_join_without_columns_of_streams_that_have_none_in_common(app, clicks):
    told = refused(lambda: clicks.join(app.stream("visits", schema="visitor string"), within="1 s"))
    assert 'on={"user": "visitor"}' in told


def test_a_join_with_a_table_without_columns(clicks, users):
    told = refused(lambda: clicks.join(users))
    assert "columns that must be equal" in told
    assert 'on={"user": "id"}' in told
    assert "[]" not in told


def test_a_bound_of_time_is_asked_for_with_columns_of_the_user(clicks, views):
    assert 'on="user", within="5 seconds"' in refused(lambda: clicks.join(views))


def test_a_join_with_a_table_by_something_else_than_its_key(clicks, users):
    assert "keyed by ['id'], the join looks for ['user']" in refused(lambda: clicks.join(users, on="user"))


def test_a_bound_of_time_where_there_is_none(clicks, users):
    assert "within= is for a join of two streams" in refused(
        lambda: clicks.join(users, on={"user": "id"}, within="1 s")
    )


@pytest.mark.parametrize("how", ["right", "outer", "semi"])
def test_a_kind_of_join_that_a_table_cannot_have(clicks, users, how):
    assert "inner, left" in refused(lambda: clicks.join(users, on={"user": "id"}, how=how))


def test_tables_are_joined_by_their_keys(app, users):
    other = app.table("orders", key="number", schema="number int, user string")
    assert "joined by their keys" in refused(lambda: users.join(other, on={"id": "user"}))


def test_a_table_is_not_joined_with_a_stream(clicks, users):
    assert "stream.join(table" in refused(lambda: users.join(clicks))


def test_final_results_of_what_never_is_final(clicks):
    counts = clicks.group_by("user").count()
    told = refused(lambda: counts.to("counts", emit="final"))
    assert "never is final" in told
    assert "window(tumbling" in told


def test_updates_of_what_does_not_change(clicks):
    assert "every row is final" in refused(lambda: clicks.to("copy", emit="updates"))


def test_updates_of_sessions_and_of_sliding_windows(clicks):
    for window in (session("1 minute"), sliding("1 minute")):
        counts = clicks.group_by("user").window(window).count()
        assert 'emit="final"' in refused(lambda counts=counts: counts.to("counts", emit="updates"))


def test_state_after_results_that_are_never_final(clicks, users):
    counts = clicks.group_by("user").count().to_stream()
    for step in (
        lambda: counts.group_by("count").window(tumbling("1 minute")).count(),
        lambda: counts.join(users, on={"user": "id"}),
        lambda: counts.deduplicate("user", within="1 minute"),
    ):
        assert '.through("some-topic")' in refused(step)


def test_a_running_count_after_final_results_alone(clicks, views):
    windowed = clicks.group_by("user").window(tumbling("1 minute")).count()
    assert '.through("some-topic")' in refused(lambda: windowed.group_by("user").count())
    outer = clicks.join(views, on="user", within="1 minute", how="left")
    assert "outer join" in refused(lambda: outer.group_by("user").count())
    clicks.join(views, on="user", within="1 minute").group_by("user").count().to("fine")


def test_updates_of_a_window_after_an_outer_join(clicks, views):
    outer = clicks.join(views, on="user", within="1 minute", how="outer")
    counts = outer.group_by("user").window(tumbling("1 minute")).count()
    assert "stream_join-1 comes before it" in refused(lambda: counts.to("counts", emit="updates"))


def test_session_window_without_a_group(clicks):
    assert "needs a group" in refused(lambda: clicks.window(session("1 minute")))


def test_a_window_without_time(app):
    stream = app.from_df(lambda spark: spark.readStream.format("rate").load())
    assert "has none" in refused(lambda: stream.window(tumbling("1 minute")))


def test_a_view_without_a_key(clicks):
    assert 'key="' in refused(lambda: clicks.materialize("last"))


def test_an_aggregate_of_nothing(clicks):
    assert "nothing to aggregate" in refused(lambda: clicks.group_by("user").agg())


def test_a_group_by_an_expression(clicks):
    assert "not the name of a column" in refused(lambda: clicks.group_by(F.upper("user")))


def test_sql_that_names_no_stream(app, clicks):
    with pytest.raises(PipelineError, match="names no stream"):
        app.sql("select * from nowhere")


def test_an_application_without_a_sink(app, clicks):
    assert "nothing to run" in refused(app.start)


def test_a_word_that_means_nothing(app, clicks):
    assert "'fail', 'skip'" in refused(lambda: app.stream("more", schema="n int", on_error="ignore"))
    assert "'fail', 'skip'" in refused(lambda: clicks.map(str, "n int", on_error="ignore"))
    assert "'event', 'processing'" in refused(lambda: clicks.process(key="user", out="n int", timers="wall"))
    assert "'final', 'updates'" in refused(lambda: clicks.to("out", emit="last"))
    with pytest.raises(TypeError, match="tll"):
        clicks.process(key="user", out="n int", tll="5 s")


def test_state_without_key_columns(clicks):
    for step in (
        lambda: clicks.deduplicate(within="1 minute"),
        lambda: clicks.group_by().reduce(lambda a, b: a, "user string"),
        lambda: clicks.process(out="user string")(lambda key, rows: ()),
    ):
        assert "needs columns to tell rows apart by" in refused(step)


def test_waiting_for_time_without_time(app, clicks):
    stream = app.from_df(lambda spark: spark.readStream.format("rate").load())
    for step in (
        lambda: stream.deduplicate("value", within="1 minute"),
        lambda: clicks.join(stream, on={"user": "value"}, within="1 minute"),
        lambda: stream.process(key="value", out="value long", ttl="1 minute")(lambda key, rows: ()),
    ):
        assert 'time="' in refused(step)


def test_session_window_without_a_group_after_pandas(clicks):
    assert "needs a group" in refused(lambda: clicks.map_pandas(lambda frame: frame, "n int").window(session("1 m")))


def test_a_stream_is_not_merged_with_a_table(clicks, users):
    assert ".to_stream()" in refused(lambda: clicks.merge(users))


def test_a_step_of_streams_on_a_table(users):
    assert "by .to_stream()" in refused(lambda: users.group_by("name"))


def test_a_source_of_no_topic_or_of_too_much(app):
    assert 'pattern="orders-.*"' in refused(lambda: app.stream(schema="n int"))
    assert "both are given" in refused(lambda: app.stream("a", pattern="b", schema="n int"))
    assert "does not name topics" in refused(lambda: app.stream([], schema="n int"))
    assert "does not name topics" in refused(lambda: app.stream(["a", 1], schema="n int"))
    assert "no regular expression" in refused(lambda: app.stream(pattern="orders-[", schema="n int"))
    assert "one topic" in refused(lambda: app.table(["a", "b"], key="n", schema="n int"))


def test_a_type_that_spark_does_not_have(app, clicks):
    told = refused(lambda: app.stream("more", schema="id itn"))
    assert "has the type 'itn', which Spark does not have" in told
    assert 'app.stream("more", schema="id itn")' in told
    assert 'write  "id int"' in told
    for step in (
        lambda: app.table("more", key="id", schema="id itn"),
        lambda: clicks.map(str, "n itn"),
        lambda: clicks.map_pandas(str, "n itn"),
        lambda: clicks.process(key="user", out="n itn"),
        lambda: clicks.group_by("user").reduce(max, "n itn"),
    ):
        assert "'itn'" in refused(step)


def test_a_time_or_key_that_is_no_column(app):
    told = refused(lambda: app.stream("more", schema="id int, at timestamp", time="att"))
    assert "time='att' is no column of this source" in told
    assert "the columns are id, at" in told
    assert 'time="at"' in told
    assert 'key="id"' in refused(lambda: app.stream("more", schema="id int, at timestamp", key="idd"))
    assert 'key="id"' in refused(lambda: app.table("more", schema="id int, name string", key="idd"))
    assert "the columns are key, value" in refused(lambda: app.stream("more", time="at"))


def test_a_time_that_is_no_time(app):
    for kind in ("double", "boolean", "array<int>", "decimal(10,2)"):
        told = refused(lambda kind=kind: app.stream("more", schema=f"at {kind}", time="at"))
        assert f"time='at' is {kind}, which is no time" in told
    for number, kind in enumerate(("timestamp", "date", "long", "int", "string", "varchar(30)")):
        app.stream(f"fine-{number}", schema=f"at {kind}", time="at")


def test_headers_that_are_a_column_already(app):
    assert "headers=True adds one" in refused(lambda: app.stream("more", schema="headers string", headers=True))


def test_late_rows_where_no_row_comes_too_late(app, clicks, users, views):
    assert "where no row comes too late" in refused(lambda: clicks.join(users, on={"user": "id"}, late_to="late"))
    assert "where no row comes too late" in refused(
        lambda: clicks.process(key="user", out="n int", late_to="late")(lambda key, rows: ())
    )
    clicks.deduplicate("user", within="1 minute", late_to="late").foreach_batch(print)
    assert "foreach_batch-1" in refused(app.queries)


def test_retries_that_are_no_number(clicks):
    for retries in (-1, "3", True):
        assert "no number of retries" in refused(lambda retries=retries: clicks.foreach(print, retries=retries))
