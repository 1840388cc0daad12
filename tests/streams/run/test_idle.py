"""A stream that falls silent, and the windows that it shares with another."""

from __future__ import annotations

import pytest

from odradek.streams import App, tumbling

pytestmark = pytest.mark.spark


def test_a_silent_stream_holds_back_windows_until_it_is_idle(odradek_test_driver):
    app = App("harbour")
    trips, ferries = (
        app.stream(topic, schema="who string, at timestamp", time="at", late="2 seconds", idle_after="1 minute")
        for topic in ("trips", "ferries")
    )
    counts = trips.merge(ferries).group_by("who").window(tumbling("10 seconds")).count()
    counts.select("who", "count").to("counts", key="who")
    with odradek_test_driver(app) as t:
        t.input("trips").send({"who": "ann"}, at="2026-01-01T12:00:01Z")
        t.input("ferries").send({"who": "ann"}, at="2026-01-01T12:00:02Z")
        t.input("trips").send({"who": "bob"}, at="2026-01-01T12:00:40Z")
        assert t.output("counts").read_values() == [], "the ferries are at two seconds, and not idle"
        t.input("trips").send({"who": "bob"}, at="2026-01-01T12:02:00Z")
        found = sorted((row["who"], row["count"]) for row in t.output("counts").read_values())
        assert found == [("ann", 2), ("bob", 1)]
