"""What several sinks have in common is done once."""

from __future__ import annotations

import sys

from pyspark import cloudpickle

from odradek.streams import App, State, tumbling

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as what a user's script defines


def test_a_function_with_state_behind_two_sinks_and_another_step_runs_once_per_row(odradek_test_driver, tmp_path):
    calls = tmp_path / "calls"
    app = App("shared")

    def count(key, rows, seen: State[int]):
        for row in rows:
            seen.value = (seen.value or 0) + 1
            with calls.open("a") as file:
                file.write(f"{key}{row.n} ")
            yield {"user": key, "n": row.n, "seen": seen.value}

    clicks = app.stream("clicks", schema="user string, n int", late="0 seconds")
    counted = clicks.process(key="user", out="user string, n int, seen int", name="counted")(count)
    counted.to("all")
    counted.filter("seen > 1").to("again")
    counted.group_by("user").window(tumbling("1 minute")).count().to("per-minute")
    (query,) = app.queries()
    assert [step.name for step in query.steps].count("counted") == 1
    with odradek_test_driver(app) as t:
        sent = [{"user": user, "n": n} for n, user in enumerate("aab")]
        t.input("clicks").send(*sent, at="2026-01-01T00:00:01Z")
        t.advance_time("2026-01-01T00:02:00Z")
        assert sorted(row["seen"] for row in t.output("all").read_values()) == [1, 1, 2]
        assert [row["n"] for row in t.output("again").read_values()] == [1]
        assert sorted(row["count"] for row in t.output("per-minute").read_values()) == [1, 2]
        assert sorted(calls.read_text().split()) == ["a0", "a1", "b2"]
