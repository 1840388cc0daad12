"""The fleet, without any I/O: `step(now)` gives every record that is due until then, in order of time.

What a fleet does depends on its seed and its first moment alone, not on how often it is asked.
"""

from __future__ import annotations

import heapq
import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime

from odradek.demo.trucking.drivers import PATTERNS, Driver, DriverTable, RiskPattern, roster
from odradek.demo.trucking.geography import ROUTES, Route
from odradek.demo.trucking.topics import DRIVERS, POSITIONS, SPEEDS

NORMAL = "Normal"
OVERSPEED = "Overspeed"
VIOLATIONS = (OVERSPEED, "Lane Departure", "Unsafe following distance", "Unsafe tail distance")
FAST_MPH = (80, 105)
LEGAL_MPH = 75
TRIPS_PER_ROUTE = 4
SPARE_TRUCKS = 5
# A second on the page is two and a half minutes on the road. Otherwise the trucks would not visibly move.
TIME_LAPSE = 150
INTERVAL_MS = (950, 1050)
SPEED_LAG_MS = (-150, 250)  # when speed is measured, seen from the position it belongs to
SPEED_MISSING = 0.01
MALFORMED_EVERY = 400  # positions
DRIVER_CHANGE_EVERY_MS = 7_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    topic: str
    key: bytes
    value: bytes
    time_ms: int


def iso(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


class Truck:
    """A driver on the road: drives a route to its end, takes another truck back, and another route after four trips."""

    def __init__(self, driver: Driver, pattern: RiskPattern, truck_id: int, rng: random.Random) -> None:
        self.driver_id = driver.id
        self.truck_id = truck_id
        self.pattern = pattern
        self._rng = rng
        self.route: Route = rng.choice(ROUTES)
        self._forward = rng.random() < 0.5
        self._miles = rng.uniform(0, self.route.miles)
        self._trips = 0
        self._speed = rng.uniform(pattern.speed_min, LEGAL_MPH)
        self._place_in_pattern = rng.randrange(pattern.calm + pattern.spree)

    def drive(self, elapsed_s: float) -> bool:
        """True when the end of the route was reached and the truck can be left there."""
        self._miles += self._speed * elapsed_s * TIME_LAPSE / 3600
        if self._miles < self.route.miles:
            return False
        self._miles = 0.0
        self._forward = not self._forward
        self._trips += 1
        if self._trips == TRIPS_PER_ROUTE:
            self._trips = 0
            self.route = self._rng.choice(ROUTES)
        return True

    def behave(self) -> str:
        """What the sensors say this time: Normal, or a violation while in a spree."""
        pattern, rng = self.pattern, self._rng
        self._place_in_pattern = (self._place_in_pattern + 1) % (pattern.calm + pattern.spree)
        in_spree = self._place_in_pattern >= pattern.calm
        if not in_spree or rng.random() >= pattern.violating:
            self._speed = min(max(self._speed + rng.uniform(-6, 6), pattern.speed_min), LEGAL_MPH)
            return NORMAL
        event_type = self._violation()
        if event_type == OVERSPEED:
            self._speed = rng.uniform(FAST_MPH[0], max(FAST_MPH[0] + 5, pattern.speed_max))
        return event_type

    def _violation(self) -> str:
        if self.pattern.speed_max > LEGAL_MPH and self._rng.random() < 0.6:
            return OVERSPEED
        return self._rng.choice(VIOLATIONS)

    @property
    def speed_mph(self) -> int:
        return round(self._speed)

    @property
    def position(self) -> tuple[float, float]:
        latitude, longitude = self.route.position(self._miles if self._forward else self.route.miles - self._miles)
        return round(latitude, 4), round(longitude, 4)


class Fleet:
    def __init__(self, *, seed: int, start_ms: int, trucks: int = 30, events_per_s: float = 1.0) -> None:
        self._rng = random.Random(seed)  # noqa: S311 (the same day on the road for the same seed)
        self._interval_scale = 1 / events_per_s
        self._now_ms = start_ms
        self._sequence = 0
        self.drivers = DriverTable(roster(trucks, self._rng))
        rows = list(self.drivers.rows.values())
        self._trucks = [
            Truck(row, PATTERNS[number % len(PATTERNS)], 40 + number, self._rng) for number, row in enumerate(rows)
        ]
        self._spare = [40 + trucks + number for number in range(SPARE_TRUCKS)]
        # (time, tie-breaker, what happens then); the tie-breaker keeps the order total
        self._due: list[tuple[int, int, Truck | None]] = []
        self._last_ms: dict[int, int] = {}
        self._pending: list[Record] = [self._driver_record(row, start_ms) for row in self.drivers.snapshot(start_ms)]
        for number, truck in enumerate(self._trucks):
            first_ms = start_ms + round(self._rng.uniform(0, 1000) * self._interval_scale)
            self._last_ms[truck.driver_id] = start_ms
            heapq.heappush(self._due, (first_ms, number, truck))
        heapq.heappush(self._due, (start_ms + DRIVER_CHANGE_EVERY_MS, len(self._trucks), None))

    def step(self, now_ms: int) -> list[Record]:
        """Every record due until `now_ms`. Time does not go back: an earlier moment than before gives nothing."""
        self._now_ms = max(self._now_ms, now_ms)
        records, self._pending = self._pending, []
        while self._due[0][0] <= self._now_ms:
            due_ms, number, truck = heapq.heappop(self._due)
            if truck is None:
                heapq.heappush(self._due, (due_ms + DRIVER_CHANGE_EVERY_MS, number, None))
                records.append(self._change(self._rng.choice(self._trucks).driver_id, due_ms))
            else:
                heapq.heappush(self._due, (due_ms + self._interval_ms(), number, truck))
                records += self._measure(truck, due_ms)
        return records

    def change_driver(self, driver_id: int) -> None:
        """Edits the row of a driver; the next step returns the change event."""
        self._pending.append(self._change(driver_id, self._now_ms))

    def _interval_ms(self) -> int:
        return max(1, round(self._rng.uniform(*INTERVAL_MS) * self._interval_scale))

    def _measure(self, truck: Truck, due_ms: int) -> list[Record]:
        rng = self._rng
        elapsed_s = (due_ms - self._last_ms[truck.driver_id]) / 1000
        self._last_ms[truck.driver_id] = due_ms
        if truck.drive(elapsed_s):
            self._spare.append(truck.truck_id)
            truck.truck_id = self._spare.pop(rng.randrange(len(self._spare) - 1))
        event_type = truck.behave()
        self._sequence += 1
        position = self._position(truck, event_type, due_ms)
        records = [position]
        if self._sequence % MALFORMED_EVERY == 0:
            cut = rng.randrange(10, len(position.value) - 10)
            records.append(_record(POSITIONS, position.key, position.value[:cut], due_ms))
        if rng.random() >= SPEED_MISSING:
            records.append(self._speed(truck, due_ms + rng.randint(*SPEED_LAG_MS)))
        return records

    def _position(self, truck: Truck, event_type: str, time_ms: int) -> Record:
        latitude, longitude = truck.position
        event = {
            "eventTime": iso(time_ms),
            "eventSource": "truck_geo_event",
            "truckId": truck.truck_id,
            "driverId": truck.driver_id,
            "routeId": truck.route.id,
            "route": truck.route.name,
            "eventType": event_type,
            "latitude": latitude,
            "longitude": longitude,
            "correlationId": self._sequence,
        }
        return _record(POSITIONS, _key(truck.driver_id), _json(event), time_ms)

    def _speed(self, truck: Truck, time_ms: int) -> Record:
        event = {
            "eventTime": iso(time_ms),
            "eventSource": "truck_speed_event",
            "truckId": truck.truck_id,
            "driverId": truck.driver_id,
            "routeId": truck.route.id,
            "route": truck.route.name,
            "speed": truck.speed_mph,
            "correlationId": self._sequence,
        }
        return _record(SPEEDS, _key(truck.driver_id), _json(event), time_ms)

    def _change(self, driver_id: int, time_ms: int) -> Record:
        return self._driver_record(self.drivers.change(driver_id, time_ms), time_ms)

    def _driver_record(self, envelope: dict[str, object], time_ms: int) -> Record:
        row = envelope["after"]
        key = _json({"id": row["id"]})  # type: ignore[index]
        return _record(DRIVERS, key, _json(envelope), time_ms)


def _key(driver_id: int) -> bytes:
    return str(driver_id).encode()


def _json(document: dict[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _record(topic: str, key: bytes, value: bytes, time_ms: int) -> Record:
    return Record(topic=topic, key=key, value=value, time_ms=time_ms)
