"""Mistakes that only Spark can see, told in our words before or when a query starts."""

from __future__ import annotations

import pytest

from odradek.streams import App, F, PipelineError


@pytest.fixture
def told(process):
    def start(app: App) -> str:
        with pytest.raises(PipelineError) as refused:
            process(app)
        assert "test_complaints.py:" in str(refused.value)
        return str(refused.value)

    return start


def test_error_of_spark_names_the_line_of_the_user(told, topics):
    topics.create("complaints")

    def stream(app: App):
        return app.stream("complaints", schema="user string, n int")

    app = App("no-column")
    rows = stream(app)
    rows.where(rows.n > 1).select("upper(usr)").to("out")
    refused = told(app)
    assert "there is no column usr" in refused
    assert "close to it there are n, user" in refused
    assert 'select("upper(usr)")' in refused

    app = App("no-sql")
    stream(app).with_columns(country="United Kingdom").to("out")
    assert "lit(" in told(app)

    app = App("no-key")
    stream(app).select("*").to("out", key="nobody")
    refused = told(app)
    assert "there is no column nobody" in refused
    assert "close to it there are n, user" in refused

    app = App("unlike")
    stream(app).merge(stream(app).drop("n")).to("out")
    assert "cannot be merged" in told(app)

    app = App("never-final")
    stream(app)
    app.sql("select user, count(*) as n from complaints group by user").to("out")
    assert 'emit="updates"' in told(app)

    app = App("no-topic")
    app.stream("nowhere", schema="n int").to("from-nowhere")
    app.stream("nirvana", schema="n int").to("from-nowhere")
    refused = told(app)
    assert "there are no topics 'nirvana', 'nowhere'" in refused
    assert "odradek topic create nirvana; odradek topic create nowhere" in refused
    assert "from-nowhere" not in topics.cluster.topics(), "nothing is made for what cannot run"


@pytest.mark.parametrize(
    "step",
    [
        lambda rows, other, table: rows.rekey("usr"),
        lambda rows, other, table: rows.deduplicate("usr", within="1 minute"),
        lambda rows, other, table: rows.process(key="usr", out="n int")(lambda key, rows: ()),
        lambda rows, other, table: rows.group_by("usr").reduce(lambda one, other: one, "n int"),
        lambda rows, other, table: other.join(rows, on={"user": "usr"}, within="1 minute"),
        lambda rows, other, table: rows.join(table, on={"usr": "user"}),
    ],
)
def test_a_misspelt_key_of_columns_that_only_spark_knows(told, topics, step):
    topics.create("complaints", "others", "table")
    app = App("no-such-key")
    rows = app.stream("complaints", schema="user string, n int").select("*")
    other = app.stream("others", schema="user string")
    table = app.table("table", key="user", schema="user string, name string")
    step(rows, other, table).to("out", key=[])
    refused = told(app)
    assert "there is no column usr" in refused
    assert "close to it there are user" in refused
    assert "lambda rows" in refused, "the line of the step"


def test_changed_state_types_are_refused_with_the_way_to_reset(told, feed, kept, process):
    """What a step without state does to types only Spark knows; the rest is refused before it is asked."""

    def counting(user) -> App:
        app = App("changed")
        source, rows = feed(app, "clicks", "user string")
        source.put({"user": "a", "at": 1})
        kept(rows.with_columns(user=user).group_by("user").agg(n=F.count("*")), emit="updates")
        return app

    process(counting(F.upper("user")))
    refused = told(counting(F.length("user")))
    assert "written by other code" in refused
    assert "odradek streams reset" in refused


@pytest.mark.parametrize(
    "step",
    [
        lambda rows: rows.with_columns(v=rows.user + 1),
        lambda rows: rows.filter(rows.n > "hot"),
        lambda rows: rows.filter("n > 'hot'"),
        lambda rows: rows.select(v=F.col("user").cast("int")),
        lambda rows: rows.group_by("user").agg(v=F.sum(rows.user.cast("int"))),
    ],
)
def test_value_of_the_wrong_type_names_the_line_of_the_step(told, topics, step):
    topics.send("misfits", {"user": "ann", "n": 1})
    app = App("misfits")
    rows = app.stream("misfits", schema="user string, n int")
    step(rows.filter("n < 7")).to("out")
    refused = told(app)
    assert "lambda rows" in refused, "the line of the step"
    assert "expressions.py" not in refused
    assert "was called from" not in refused
    assert "'ann'" in refused or "'hot'" in refused


def test_error_in_a_function_with_state_names_its_record(told, topics):
    topics.send("raising", {"user": "ann", "n": 0})
    app = App("raising")
    rows = app.stream("raising", schema="user string, n int")

    @rows.process(key="user", out="user string, n double")
    def inverse(user, rows):
        for row in rows:
            yield user, 1 / row.n

    inverse.to("out")
    refused = told(app)
    assert "@rows.process" in refused, "the line of the step"
    assert "raising-0 at offset 0: ZeroDivisionError: division by zero" in refused
    assert "in inverse, " in refused
    assert "dlq=" in refused
