"""The state of the page, computed from records alone."""

from __future__ import annotations

import json

from odradek.demo.trucking import topics
from odradek.demo.trucking.fleet import Fleet
from odradek.demo.trucking.page_state import PageState, PartState

START_MS = 1_767_225_600_000


def driven(state: PageState, seconds: int) -> PageState:
    fleet = Fleet(seed=1, start_ms=START_MS)
    for second in range(seconds + 1):
        for record in fleet.step(START_MS + second * 1000):
            state.see(record.topic, record.value, {})
        state.tick(float(second))
    return state


def test_a_page_that_opens_gets_everything_and_then_only_what_changed():
    state = driven(PageState(), 20)
    opened = state.everything()
    assert len(opened["trucks"]) == len(opened["drivers"]) == 30
    assert len(opened["samples"]) == 21
    state.changes()
    assert state.changes()["trucks"] == []
    state.see(topics.POSITIONS, json.dumps({"driverId": 10, "eventType": "Normal"}).encode(), {})
    changed = state.changes()
    assert [truck["driverId"] for truck in changed["trucks"]] == [10]
    assert changed["drivers"] == changed["alerts"] == changed["samples"] == []


def test_rates_are_those_of_the_last_seconds():
    frame = driven(PageState(), 30).everything()
    assert 29 <= frame["topics"][topics.POSITIONS]["rate"] <= 31
    assert 58 <= frame["samples"][-1]["events"] <= 61
    assert frame["topics"][topics.ALERTS]["rate"] == 0


def test_a_truck_remembers_its_last_violation_and_its_speed():
    state = PageState()
    for kind in ("Overspeed", "Normal"):
        state.see(topics.POSITIONS, json.dumps({"driverId": 10, "eventType": kind}).encode(), {})
    state.see(topics.SPEEDS, json.dumps({"driverId": 10, "speed": 91}).encode(), {})
    (truck,) = state.everything()["trucks"]
    assert (truck["eventType"], truck["last"], truck["violations"], truck["speed"]) == ("Normal", "Overspeed", 1, 91)


def test_results_of_the_application_are_shown_as_they_come():
    state = PageState()
    state.see(topics.STATISTICS, b'{"driverId":10,"violations":3}', {})
    state.see(topics.ALERTS, b'{"driverId":10,"violations":5}', {})
    state.see(topics.DEAD_LETTERS, b'{"cut', {"__streams.errors.message": b"not JSON"})
    frame = state.changes()
    assert frame["statistics"] == [{"driverId": 10, "violations": 3}]
    assert frame["alerts"] == [{"driverId": 10, "violations": 5}]
    assert frame["letters"] == [{"value": '{"cut', "why": "not JSON"}]


def test_a_malformed_record_disturbs_nothing():
    state = PageState()
    state.see(topics.POSITIONS, b'{"driverId": 1', {})
    assert state.everything()["trucks"] == []
    assert state.everything()["topics"][topics.POSITIONS]["total"] == 1


def test_page_shows_the_parts_and_the_lag_of_the_application():
    state = PageState()
    state.tell_parts((PartState(name="spark", state="starting", detail="Java", progress=0.5),))
    state.tick(0)
    assert state.everything()["behind"] is state.everything()["topics"][topics.POSITIONS]["behind"] is None
    state.tell_behind({topics.POSITIONS: 7.5, topics.SPEEDS: 0.0})
    state.tick(1)
    frame = state.everything()
    assert frame["parts"] == [{"name": "spark", "state": "starting", "detail": "Java", "restarts": 0, "progress": 0.5}]
    assert [sample["behind"] for sample in frame["samples"]] == [None, 7.5]
    assert (frame["behind"], frame["topics"][topics.POSITIONS]["behind"]) == (7.5, 7.5)
    assert state.summary()["seconds behind"] == 8


def test_memory_stays_bounded():
    state = PageState()
    for number in range(1000):
        state.see(topics.ALERTS, json.dumps({"driverId": number}).encode(), {})
        state.tick(float(number))
    frame = state.everything()
    assert len(frame["alerts"]) == 30
    assert len(frame["samples"]) == 120
