"""The clock of the wall on the engine: timers that follow it, and rows that have no other time."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import pytest
from pyspark import cloudpickle

from odradek.streams import App, State, Timers
from streams.feeding import until

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as what a user's script defines


class Reminded:
    def on_rows(self, key, rows, seen: State[int], timers: Timers):
        for _ in rows:
            seen.value = (seen.value or 0) + 1
            timers.clear()
            timers.at(datetime.now(UTC))

    def on_timer(self, key, time, seen: State[int]):
        yield key, seen.value


def test_timers_of_the_wall_fire_although_no_row_comes(topics, live):
    app = App("reminding")
    clicks = app.stream("wall-clicks", schema="user string", dlq="wall-clicks-dead")
    users = app.table("wall-users", schema="id string, name string", key="id")
    named = clicks.join(users, on={"user": "id"}, how="left")
    reminded = named.process(key="user", out="user string, n bigint", timers="processing")(Reminded)
    reminded.to("wall-reminders", key="user")
    topics.create("wall-users", "wall-clicks-dead", "wall-reminders")
    topics.send("wall-clicks", {"user": "ann"}, {"user": "bob"}, {"user": "ann"}, {"user": "cem"})
    running = live(app)
    until(lambda: len(topics.records("wall-reminders")) >= 3 or not running.active, "reminders", 90)
    running.check()
    assert sorted(topics.keyed("wall-reminders")) == [
        ("ann", {"user": "ann", "n": 2}),
        ("bob", {"user": "bob", "n": 1}),
        ("cem", {"user": "cem", "n": 1}),
    ]
    assert topics.records("wall-clicks-dead") == [], "a tick is no record"


def doubled(frame):
    return frame.assign(n=frame["n"] * 2)[["user", "n"]]


def last_of(key, rows, times: State[int]):
    for row in rows:
        times.value = (times.value or 0) + 1
        yield key, row.n, times.value, row._time


def test_what_map_pandas_gives_without_a_time_has_that_of_processing(topics, process):
    app = App("pieces")
    rows = app.stream("pieces-in", schema="user string, n int").map_pandas(doubled, "user string, n int")
    out = "user string, n int, times bigint, at timestamp"
    rows.process(key="user", out=out)(last_of).to("pieces-out", key="user")
    topics.create("pieces-out")
    topics.send("pieces-in", {"user": "a", "n": 1}, {"user": "a", "n": 2}, {"user": "b", "n": 3})
    before = datetime.now(UTC)
    process(app).stop()
    found = topics.values("pieces-out")
    assert [(row["n"], row["times"]) for row in found if row["user"] == "a"] == [(2, 1), (4, 2)]
    assert all(before <= datetime.fromisoformat(row["at"]) <= datetime.now(UTC) for row in found)
