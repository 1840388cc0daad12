"""Rows that come too late for a step go to a topic, through all levels of an application."""

from __future__ import annotations

import sys

from pyspark import cloudpickle

from odradek.streams import App, F, State, tumbling

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as what a user's script defines

LATE = "__streams.late."


def seen(key, rows, count: State[int]):
    for _ in rows:
        count.value = (count.value or 0) + 1
        yield {"id": key, "n": count.value}


def told(record):
    headers = {name.removeprefix(LATE): value.decode() for name, value in record.headers.items()}
    return record.key, record.value, headers


def test_late_rows_of_steps_behind_each_other_are_written_once_with_what_they_were(odradek_test_driver):
    app = App("late-chain")
    clicks = app.stream("clicks", schema="id string, n int, at timestamp", time="at", late="10 seconds", name="c")
    first = clicks.deduplicate("id", "n", within="1 second", late_to="late-clicks", name="first")
    windows = first.group_by("id", name="sums").window(tumbling("10 seconds", grace="0 s"), late_to="late-sums")
    windows.agg(n=F.sum("n")).select("id", "n").to("sums", key="id")
    with odradek_test_driver(app) as t:

        def send(second: int, n: int) -> None:
            t.input("clicks").send({"id": "a", "n": n}, at=f"2026-01-01T00:00:{second:02}Z", key="k")

        send(1, 1)
        send(20, 2)
        send(12, 3)  # in time for the first step; its window is over
        send(9, 4)  # too late for the first step, so the second never sees it
        send(30, 5)
        send(21, 6)
        t.advance_time("2026-01-01T00:00:41Z")
        ((key, value, headers),) = map(told, t.output("late-clicks").read())
        assert (key, value) == ("k", {"id": "a", "n": 4, "at": "2026-01-01T00:00:09.000000Z"})
        assert headers == {"step": "first", "input": "c", "time": "2026-01-01T00:00:09.000000Z", "ms": "11000"}
        late_sums = t.output("late-sums").read()
        sums = t.output("sums").read_values()
        assert sum(row["n"] for row in sums) + sum(one.value["n"] for one in late_sums) == 1 + 2 + 3 + 5 + 6
        assert sorted(one.value["n"] for one in late_sums) == [3, 6]
        assert told(late_sums[0])[2]["step"] == "sums"


def test_joins_and_functions_with_a_ttl_give_their_late_rows(odradek_test_driver):
    app = App("late-joins")
    left = app.stream("left", schema="id string, l int", late="1 second")
    right = app.stream("right", schema="id string, r int", late="1 second")
    left.join(right, on="id", within="1 second", late_to="late-pairs", name="pairs").to("pairs")
    counts = app.stream("counted", schema="id string", late="1 second")
    counts.process(key="id", out="id string, n int", ttl="1 minute", late_to="late-counts", name="counts")(seen).to("n")
    with odradek_test_driver(app) as t:
        t.input("left").send({"id": "a", "l": 1}, at="2026-01-01T00:00:30Z")
        t.input("right").send({"id": "a", "r": 2}, at="2026-01-01T00:00:30Z")
        t.input("counted").send({"id": "a"}, at="2026-01-01T00:00:30Z")
        assert [row["r"] for row in t.output("pairs").read_values()] == [2]
        t.input("right").send({"id": "a", "r": 3}, at="2026-01-01T00:00:05Z")
        t.input("counted").send({"id": "b"}, at="2026-01-01T00:00:05Z")
        assert t.output("pairs").read() == []
        ((_, value, headers),) = map(told, t.output("late-pairs").read())
        assert value == {"id": "a", "r": 3}
        assert (headers["step"], headers["input"]) == ("pairs", "right")
        assert [row["id"] for row in t.output("n").read_values()] == ["a"]
        assert t.output("late-counts").read_values() == [{"id": "b"}]
