"""The trail of a change: what counts as its arrival, and what does not."""

from __future__ import annotations

from dataclasses import asdict, replace

from odradek.demo.trucking import topics
from odradek.demo.trucking.drivers import Driver
from odradek.demo.trucking.trail import Trail

BEFORE = Driver(id=12, driverName="Cleo Varga", certified=True, wagePlan="miles")
AFTER = replace(BEFORE, certified=False, wagePlan="hours")


def shown(row: Driver) -> dict[str, object]:
    return asdict(row) | {"driverId": row.id, "violations": 5}


def test_stations_count_the_seconds_since_the_order():
    trail = Trail(AFTER, 100.0)
    trail.committed(AFTER, 100.1)
    trail.see(topics.DRIVERS, {"op": "u", "after": asdict(AFTER)}, 100.25)
    trail.see(topics.ENRICHED, shown(AFTER), 101.5)
    assert not trail.is_complete
    trail.see(topics.ALERTS, shown(AFTER), 109.0)
    trail.see(topics.ALERTS, shown(AFTER), 119.0)
    assert trail.is_complete
    assert {station: round(seconds, 2) for station, seconds in trail.reached.items()} == {
        "committed": 0.1,
        topics.DRIVERS: 0.25,
        topics.ENRICHED: 1.5,
        topics.ALERTS: 9.0,
    }


def test_old_rows_and_other_drivers_are_no_arrival():
    trail = Trail(AFTER, 100.0)
    trail.committed(replace(AFTER, id=13), 100.0)
    trail.see(topics.ENRICHED, shown(BEFORE), 101.0)
    trail.see(topics.ENRICHED, shown(replace(AFTER, id=13)), 101.0)
    trail.see(topics.DRIVERS, {"op": "d", "after": None}, 101.0)
    trail.see(topics.POSITIONS, shown(AFTER), 101.0)
    assert trail.reached == {}


def test_a_later_change_of_the_same_driver_shows_the_earlier_one_too():
    trail = Trail(AFTER, 100.0)
    trail.see(topics.ALERTS, shown(BEFORE), 100.0)
    trail.committed(AFTER, 100.1)
    trail.committed(BEFORE, 103.0)
    trail.see(topics.ALERTS, shown(BEFORE), 109.0)
    assert trail.reached[topics.ALERTS] == 9.0
