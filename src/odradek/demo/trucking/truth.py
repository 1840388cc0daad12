"""What the application must have found, worked out in plain Python from what the simulator sent. Nothing of Spark here.

A window is known by its driver and its first millisecond.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from odradek.demo.trucking import topics
from odradek.demo.trucking.fleet import NORMAL, OVERSPEED, Record

WINDOW_MS = 10_000
VIOLATIONS_FOR_AN_ALERT = 5
WITHIN_MS = 1_000

Window = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    driver: int
    kind: str
    time_ms: int
    speed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spree:
    violations: int
    overspeeds: int
    kinds: tuple[str, ...]


@dataclass(slots=True)
class Truth:
    events: Counter[int] = field(default_factory=Counter)  # by driver
    kinds: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # by driver
    violations: dict[int, Violation] = field(default_factory=dict)  # by correlation id
    sprees: dict[Window, Spree] = field(default_factory=dict)  # that deserve an alert
    malformed: Counter[bytes] = field(default_factory=Counter)
    # a driver's rows as they followed each other: (since, row)
    drivers: defaultdict[int, list[tuple[int, dict[str, object]]]] = field(default_factory=lambda: defaultdict(list))
    newest_ms: int = 0  # event time both topics have surely reached

    def row_at(self, driver: int, time_ms: int) -> int:
        """The number of the driver's row that was current then."""
        return max((n for n, (since, _) in enumerate(self.drivers[driver]) if since <= time_ms), default=0)


def milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def truth_of(records: Iterable[Record]) -> Truth:
    truth = Truth()
    positions: list[dict[str, object]] = []
    speeds: dict[int, tuple[int, int, int]] = {}  # correlation id -> truck, time, speed
    newest = Counter[str]()
    for record in records:
        newest[record.topic] = max(newest[record.topic], record.time_ms)
        try:
            event = json.loads(record.value)
        except ValueError:
            truth.malformed[record.value] += 1
            continue
        if record.topic == topics.POSITIONS:
            positions.append(event)
        elif record.topic == topics.SPEEDS:
            speeds[event["correlationId"]] = event["truckId"], milliseconds(event["eventTime"]), event["speed"]
        else:
            truth.drivers[event["after"]["id"]].append((record.time_ms, event["after"]))
    truth.newest_ms = min(newest[topics.POSITIONS], newest[topics.SPEEDS])
    for event in positions:
        _count(truth, event, speeds)
    truth.sprees = _sprees(truth.violations.values())
    return truth


def _count(truth: Truth, event: dict[str, object], speeds: dict[int, tuple[int, int, int]]) -> None:
    driver, kind, correlation = int(str(event["driverId"])), str(event["eventType"]), int(str(event["correlationId"]))
    truth.events[driver] += 1
    if kind == NORMAL:
        return
    truth.kinds[driver][kind] += 1
    time_ms = milliseconds(str(event["eventTime"]))
    truck, measured_ms, speed = speeds.get(correlation, (None, 0, 0))
    known = truck == event["truckId"] and abs(measured_ms - time_ms) <= WITHIN_MS
    truth.violations[correlation] = Violation(driver=driver, kind=kind, time_ms=time_ms, speed=speed if known else None)


def _sprees(violations: Iterable[Violation]) -> dict[Window, Spree]:
    windows: defaultdict[Window, list[Violation]] = defaultdict(list)
    for violation in violations:
        windows[violation.driver, violation.time_ms // WINDOW_MS * WINDOW_MS].append(violation)
    return {window: _spree(inside) for window, inside in windows.items() if len(inside) >= VIOLATIONS_FOR_AN_ALERT}


def _spree(violations: list[Violation]) -> Spree:
    kinds = [violation.kind for violation in violations]
    return Spree(violations=len(kinds), overspeeds=kinds.count(OVERSPEED), kinds=tuple(sorted(set(kinds))))
