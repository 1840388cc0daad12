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


def test_what_spark_refuses_is_told_with_the_line_that_says_it(told, topics):
    topics.create("complaints")

    def stream(app: App):
        return app.stream("complaints", schema="user string, n int")

    app = App("no-column")
    rows = stream(app)
    rows.where(rows.n > 1).select("usr").to("out")
    refused = told(app)
    assert "there is no column usr" in refused
    assert "close to it there are n, user" in refused
    assert 'select("usr")' in refused

    app = App("no-sql")
    stream(app).with_columns(country="United Kingdom").to("out")
    assert "lit(" in told(app)

    app = App("no-key")
    stream(app).to("out", key="nobody")
    assert "the key column nobody is not there" in told(app)

    app = App("unlike")
    stream(app).merge(stream(app).drop("n")).to("out")
    assert "cannot be merged" in told(app)

    app = App("never-final")
    stream(app)
    app.sql("select user, count(*) as n from complaints group by user").to("out")
    assert 'emit="updates"' in told(app)

    app = App("no-topic")
    app.stream("nowhere", schema="n int").to("from-nowhere")
    assert "there is no topic 'nowhere'" in told(app)
    assert "from-nowhere" not in topics.cluster.topics(), "nothing is made for what cannot run"


def test_state_of_other_types_is_told_with_the_way_to_begin_again(told, feed, kept, process):
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
