"""The fleet: the same day for the same seed, the rules of the road, and no clock of its own."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest

from odradek.demo.trucking import topics
from odradek.demo.trucking.drivers import PATTERNS, VERY_RISKY
from odradek.demo.trucking.fleet import NORMAL, TIME_LAPSE, VIOLATIONS, Fleet
from odradek.demo.trucking.geography import BOUNDS, ROUTES, TOWNS, miles_between

START_MS = 1_767_225_600_000


def minutes(fleet: Fleet, count: int) -> list:
    return fleet.step(START_MS + count * 60_000)


def good(records: list, topic: str) -> list[dict]:
    return [json.loads(record.value) for record in records if record.topic == topic and _parses(record.value)]


@pytest.fixture(scope="module")
def ten_minutes() -> list:
    return minutes(Fleet(seed=1, start_ms=START_MS), 10)


def test_what_happens_depends_on_the_seed_and_not_on_how_often_one_asks():
    at_once = Fleet(seed=7, start_ms=START_MS).step(START_MS + 30_000)
    fleet = Fleet(seed=7, start_ms=START_MS)
    in_pieces = [record for ms in range(0, 30_001, 37) for record in fleet.step(START_MS + ms)]
    in_pieces += fleet.step(START_MS + 30_000)
    assert in_pieces == at_once
    assert at_once != Fleet(seed=8, start_ms=START_MS).step(START_MS + 30_000)


def test_time_does_not_go_back():
    fleet = Fleet(seed=1, start_ms=START_MS)
    fleet.step(START_MS + 5_000)
    assert fleet.step(START_MS) == []


def test_every_truck_reports_about_once_a_second_under_its_drivers_key(ten_minutes):
    reports = Counter(record.key for record in ten_minutes if record.topic == topics.POSITIONS)
    assert len(reports) == 30
    assert all(590 <= count <= 615 for count in reports.values())
    assert all(int(key) == event["driverId"] for key, event in _keyed(ten_minutes, topics.POSITIONS))


def test_a_position_and_its_speed_belong_together(ten_minutes):
    speeds = {event["correlationId"]: event for event in good(ten_minutes, topics.SPEEDS)}
    positions = good(ten_minutes, topics.POSITIONS)
    with_speed = [event for event in positions if event["correlationId"] in speeds]
    assert 0.97 < len(with_speed) / len(positions) < 1
    for event in with_speed:
        speed = speeds[event["correlationId"]]
        assert (speed["driverId"], speed["truckId"]) == (event["driverId"], event["truckId"])
        if event["eventType"] == "Overspeed":
            assert 80 <= speed["speed"] <= 105
        assert 35 <= speed["speed"] <= 105


def test_trucks_stay_on_the_map_and_move_as_far_as_their_speed_allows(ten_minutes):
    south, west, north, east = BOUNDS
    last = {}
    for event in good(ten_minutes, topics.POSITIONS):
        here = event["latitude"], event["longitude"]
        assert south < here[0] < north
        assert west < here[1] < east
        vehicle, before = last.get(event["driverId"], (None, here))
        if vehicle == (event["truckId"], event["routeId"]):
            assert miles_between(before, here) < 105 * TIME_LAPSE * 1.05 / 3600 * 1.02
        last[event["driverId"]] = (event["truckId"], event["routeId"]), here


def test_a_driver_turns_round_with_another_truck_and_takes_another_route_after_four_trips():
    fleet = Fleet(seed=2, start_ms=START_MS, trucks=3)
    trucks, routes = defaultdict(set), defaultdict(set)
    for event in good(minutes(fleet, 60), topics.POSITIONS):
        trucks[event["driverId"]].add(event["truckId"])
        routes[event["driverId"]].add(event["routeId"])
    assert all(len(seen) > 3 for seen in trucks.values())
    assert all(len(seen) > 1 for seen in routes.values())


def test_a_truck_has_one_driver_at_a_time(ten_minutes):
    driver_of = {}
    for event in good(ten_minutes, topics.POSITIONS):
        previous = {driver: truck for truck, driver in driver_of.items()}.get(event["driverId"])
        if previous is not None and previous != event["truckId"]:
            del driver_of[previous]
        assert driver_of.setdefault(event["truckId"], event["driverId"]) == event["driverId"]


def test_risky_drivers_violate_more_and_in_sprees(ten_minutes):
    counts, all_kinds = Counter(), set()
    for event in good(ten_minutes, topics.POSITIONS):
        if event["eventType"] != NORMAL:
            counts[event["driverId"]] += 1
            all_kinds.add(event["eventType"])
    assert all_kinds == set(VIOLATIONS)
    risky = [10 + n for n in range(30) if PATTERNS[n % 10] is VERY_RISKY]
    assert min(counts[driver] for driver in risky) > 300
    assert {driver for driver, _ in counts.most_common(3)} == set(risky)


def test_some_records_are_cut_off(ten_minutes):
    malformed = [record for record in ten_minutes if not _parses(record.value)]
    assert 40 <= len(malformed) <= 50
    assert {record.topic for record in malformed} == {topics.POSITIONS}


def test_the_driver_table_begins_with_a_snapshot_and_goes_on_with_changes(ten_minutes):
    envelopes = good(ten_minutes, topics.DRIVERS)
    assert [envelope["op"] for envelope in envelopes[:30]] == ["r"] * 30
    rows = {}
    for envelope in envelopes:
        assert envelope["before"] == rows.get(envelope["after"]["id"])
        assert envelope["before"] != envelope["after"]
        rows[envelope["after"]["id"]] = envelope["after"]
    assert len(envelopes) - 30 == pytest.approx(600 / 7, abs=1)


def test_changed_driver_is_an_update_record():
    fleet = Fleet(seed=1, start_ms=START_MS)
    fleet.step(START_MS + 100)
    fleet.change_driver(12)
    (change,) = good(fleet.step(START_MS + 100), topics.DRIVERS)
    assert (change["op"], change["after"]["id"], change["ts_ms"]) == ("u", 12, START_MS + 100)


def test_routes_begin_and_end_in_their_towns():
    for route in ROUTES:
        begin, end = route.name.split(" to ")
        assert route.position(0) == TOWNS[begin]
        assert route.position(route.miles) == pytest.approx(TOWNS[end])
        assert 80 < route.miles < 600


def _keyed(records: list, topic: str):
    return [(r.key, json.loads(r.value)) for r in records if r.topic == topic and _parses(r.value)]


def _parses(value: bytes) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True
