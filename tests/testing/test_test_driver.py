"""The test driver, on pipelines that use all of its functions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from odradek.pipeline.errors import StreamsError
from odradek.streams import App, F, tumbling


@dataclass
class Event:
    driver: int
    kind: str
    at: datetime


def test_advance_time_closes_windows(odradek_test_driver):
    app = App("alerts")
    events = app.stream("events", schema=Event, time="at", late="10 seconds", dlq="events-dlq")
    bad = events[events.kind != "Normal"].group_by("driver").window(tumbling("3 minutes")).agg(n=F.count("*"))
    bad.to("alerts", key="driver")
    bad.materialize("by_driver", key="driver", emit="final")

    with odradek_test_driver(app) as t:
        t.input("events").send(*[{"driver": 11, "kind": "Overspeed"}] * 2, at="2026-01-01T00:00:10Z")
        t.input("events").send(Event(11, "Lane Departure", datetime(2026, 1, 1, 0, 1, tzinfo=UTC)), "no json")
        t.advance_time("2026-01-01T00:03:09Z")
        assert t.output("alerts").read() == [], "the window has ended, but rows may be ten seconds late"
        t.advance_time("2026-01-01T00:03:10Z")

        ((key, alert),) = t.output("alerts").read_keyed()
        assert (key, alert["driver"], alert["n"]) == ("11", 11, 3)
        assert t.output("alerts").read() == [], "a second read returns only new records"
        assert t.view("by_driver")[11]["n"] == 3
        (letter,) = t.output("events-dlq").read()
        assert (letter.value, letter.headers["__streams.errors.exception"]) == (b"no json", b"NotJson")


def test_advance_time_reaches_joins_and_later_queries(odradek_test_driver):
    app = App("chain")
    clicks = app.stream("clicks", schema="user string, at timestamp", time="at", late="5 seconds")
    buys = app.stream("buys", schema="user string, item string, ms bigint", time="ms", late="5 seconds")
    both = clicks.join(buys, on="user", within="1 minute", how="left").select("user", "item")
    both.to("joined")
    both.through("between").group_by("user").window(tumbling("1 minute")).count().to("counts")

    with odradek_test_driver(app) as t:
        t.input("clicks").send({"user": "a"}, {"user": "b"}, at="2026-01-01T00:00:10")
        t.input("buys").send({"user": "a", "item": "tea"}, at="2026-01-01T00:00:20")
        assert t.output("joined").read_values() == [{"user": "a", "item": "tea"}]
        t.advance_time("2026-01-01T00:10:00")
        assert t.output("joined").read_values() == [{"user": "b", "item": None}], "the join stops waiting"
        counts = t.output("counts").read_values()
        assert sorted((row["user"], row["count"]) for row in counts) == [("a", 1), ("b", 1)]


def test_events_join_the_row_of_their_time_or_the_newest_also_after_a_restart(odradek_test_driver):
    app = App("lookup")
    drivers = app.table("drivers", key="id", schema="id int, name string")
    events = app.stream("events", schema="driver int")
    events.join(drivers, on={"driver": "id"}, how="left").select("name").to("names")
    events.join(drivers, on={"driver": "id"}, how="left", as_of=False).select("name").to("newest")

    with odradek_test_driver(app) as t:
        t.input("drivers").send({"id": 11, "name": "Anna"})
        t.input("events").send({"driver": 11}, at="2001-01-01")
        assert t.output("names").read_values() == [{"name": None}], "the table had no row at the time of the event"
        assert t.output("newest").read_values() == [{"name": "Anna"}]
        t.restart()
        t.input("events").send({"driver": 11})
        t.input("drivers").delete(11)
        t.input("events").send({"driver": 11})
        assert t.output("names").read_values() == [{"name": "Anna"}, {"name": None}]


def test_wrong_topics_and_values_raise_errors(odradek_test_driver):
    app = App("strict")
    app.stream("numbers", schema="n int not null").to("copies")

    with odradek_test_driver(app) as t:
        with pytest.raises(KeyError, match="reads no topic 'nmbers', only numbers"):
            t.input("nmbers")
        with pytest.raises(KeyError, match="writes no topic 'copy', only copies"):
            t.output("copy")
        with pytest.raises(TypeError, match="cannot send 5"):
            t.input("numbers").send(5)
        t.input("numbers").send({"n": "five"})
        with pytest.raises(StreamsError, match="field n: five is not int"):
            t.settle()
