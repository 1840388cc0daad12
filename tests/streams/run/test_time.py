"""Event time through steps that could lose it, and rows that have none. Streams are files: micro-batches are ours."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from odradek.streams import App, F, PipelineError, State, Timers, hopping, session, sliding, tumbling
from odradek.streams.compile.explanations import QueryFailed
from streams.feeding import Feed, seconds

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as what a user's script defines


def test_time_goes_through_an_outer_join_a_function_and_a_merge(feed, kept, live):
    app = App("time")
    left, clicks = feed(app, "clicks", "user string")
    right, buys = feed(app, "buys", "user string, item string")
    other, calls = feed(app, "calls", "user string, item string")
    both = clicks.join(buys, on="user", within="5 seconds", how="outer")
    named = both.map(lambda row: {"user": row.user, "item": row.item or "nothing"}, "user string, item string")
    merged = named.merge(calls.rekey("user")).group_by("user").window(tumbling("10 seconds"))
    rows = kept(merged.agg(n=F.count("*"), items=F.array_sort(F.collect_set("item"))))
    left.put({"user": "a", "at": 1}, {"user": "b", "at": 2})
    right.put({"user": "a", "item": "tea", "at": 4}, {"user": "c", "item": "cup", "at": 9})
    other.put({"user": "a", "item": "call", "at": 3})
    running = live(app)
    for side, row in ((left, {}), (right, {"item": "x"})):
        side.put({"user": "z", "at": 60, **row})
    running.await_all_processed()
    assert rows == [], "the calls are still at three seconds"
    other.put({"user": "b", "item": "call", "at": 4}, {"user": "z", "item": "x", "at": 60})
    running.await_all_processed()
    assert sorted((row.user, row.n, row["items"]) for row in rows) == [
        ("a", 2, ["call", "tea"]),
        ("b", 2, ["call", "nothing"]),
        ("c", 1, ["cup"]),
    ]


def test_hops_slides_sessions_and_duplicates(feed, kept, live):
    app = App("windows")
    source, events = feed(app, "events", "user string")
    grouped = events.group_by("user")
    hops = kept(grouped.window(hopping("10 seconds", every="5 seconds", grace="2 seconds")).count())
    own = source.stream.withColumnRenamed("_time", "at").withWatermark("at", "2 seconds")
    sessions = kept(app.from_df(own, time="at").group_by("user").window(session("5 seconds")).count())
    slides = kept(grouped.window(sliding("3 seconds", grace="2 seconds")).count())
    once = kept(events.deduplicate("user", within="3 seconds"))
    source.put(*({"user": "a", "at": at} for at in (1, 4, 8, 20)), {"user": "b", "at": 18}, {"user": "a", "at": 19})
    running = live(app)
    source.put({"user": "c", "at": 100})
    running.await_all_processed()

    def spans(rows):
        return sorted((row.user, seconds(row.window_start), seconds(row.window_end), row["count"]) for row in rows)

    assert spans(hops) == [
        ("a", -5.0, 5.0, 2),
        ("a", 0.0, 10.0, 3),
        ("a", 5.0, 15.0, 1),
        ("a", 10.0, 20.0, 1),
        ("a", 15.0, 25.0, 2),
        ("a", 20.0, 30.0, 1),
        ("b", 10.0, 20.0, 1),
        ("b", 15.0, 25.0, 1),
    ]
    assert spans(sessions) == [("a", 1.0, 13.0, 3), ("a", 19.0, 25.0, 2), ("b", 18.0, 23.0, 1)]
    assert [(user, end, n) for user, _, end, n in spans(slides)] == [
        ("a", 1.0, 1),
        ("a", 4.0, 2),
        ("a", 4.001, 1),
        ("a", 8.0, 1),
        ("a", 19.0, 1),
        ("a", 20.0, 2),
        ("a", 22.001, 1),
        ("b", 18.0, 1),
    ]
    assert sorted(row.user for row in once) == ["a", "b", "c"], "one micro-batch: nothing is forgotten in it"


def counted(key: str, rows, count: State[int], timers: Timers):
    count.value = (count.value or 0) + sum(1 for _ in rows)
    timers.after("1 hour")
    yield key, count.value


def never(key: str, at: datetime, count: State[int]): ...


def doubled(frame):
    return frame.assign(n=frame["n"] * 2)[["user", "n"]]


def test_rows_without_a_time_and_timers_of_the_wall(spark: SparkSession, kept, live, tmp_path: Path):
    app, seen = App("timeless"), tmp_path / "seen"
    source = Feed(spark, tmp_path / "rows", "user string, n int")
    events = app.from_df(lambda _: source.stream.drop("_time"), name="events")
    twice = events.map_pandas(doubled, "user string, n int")
    sums = kept(twice.group_by("user").reduce(lambda a, b: {"user": a.user, "n": a.n + b.n}, "user string, n int"))
    process = events.process(key="user", out="user string, n long", on_timer=never, timers="processing")
    counts = kept(process(counted))

    def note(row):
        with seen.open("a") as file:
            file.write(f"{row.user}{row.n} {row._time.tzinfo is not None}\n")

    events.foreach(note)
    source.put({"user": "a", "n": 1}, {"user": "a", "n": 2}, {"user": "b", "n": 3})
    with pytest.raises(PipelineError, match="never is done with what is available"):
        app.start(session=spark, trigger_available_now=True)
    running = live(app)
    running.await_all_processed()
    source.put({"user": "a", "n": 4})
    running.await_all_processed()
    assert sorted((row.user, row.n) for row in sums) == [("a", 6), ("a", 14), ("b", 6)]
    assert sorted((row.user, row.n) for row in counts) == [("a", 2), ("a", 3), ("b", 1)]
    assert sorted(seen.read_text().splitlines()) == ["a1 True", "a2 True", "a4 True", "b3 True"]


def test_error_in_a_function_on_the_driver_names_its_line(feed, live):
    app = App("driver")
    source, events = feed(app, "events", "user string")

    def careless(batch, number):
        raise KeyError(f"batch {number}")

    events.foreach_batch(careless)
    source.put({"user": "a", "at": 1})
    running = live(app)
    with pytest.raises(QueryFailed, match=r"foreach_batch-1 raised KeyError: 'batch 0'") as failed:
        running.await_all_processed()
    assert "in careless" in failed.value.why
    assert "events.foreach_batch(careless)" in str(failed.value)


def test_after_a_merge_rows_of_the_faster_stream_come_before_a_timer_that_they_are_newer_than(odradek_test_driver):
    """As docs/streams/state-and-timers.md explains: the function compares the time of the row with the timer's."""
    app = App("unpaid")
    schema = "id string, kind string, at timestamp"
    orders, payments = (app.stream(topic, schema=schema, time="at") for topic in ("orders", "payments"))

    class Unpaid:
        def __init__(self, *, compares: bool) -> None:
            self.compares = compares

        def on_rows(self, order, rows, due: State[datetime], timers: Timers):
            for row in rows:
                if row.kind == "order":
                    due.value = row.at + timedelta(minutes=10)
                    timers.at(due.value)
                elif due.value is not None and (not self.compares or row.at <= due.value):
                    timers.clear()
                    due.clear()

        def on_timer(self, order, time, due: State[datetime]):
            yield (order,)

    both = orders.merge(payments)
    both.process(key="id", out="id string")(Unpaid(compares=True)).to("compared", key="id")
    both.process(key="id", out="id string")(Unpaid(compares=False)).to("cleared", key="id")
    with odradek_test_driver(app) as t:
        t.input("orders").send({"id": "a", "kind": "order"}, at="2026-01-01T00:00:40Z")
        t.input("payments").send({"id": "a", "kind": "payment"}, at="2026-01-01T00:15:00Z")
        t.input("orders").send({"id": "b", "kind": "order"}, at="2026-01-01T00:16:00Z")
        assert t.output("compared").read_values() == [{"id": "a"}]
        assert t.output("cleared").read_values() == []
