"""The application's results beside the truth: what is missing, wrong, too much.

Topics are written at least once, so after a restart a record may be there twice; then both must say the same.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from odradek.demo.trucking import topics
from odradek.demo.trucking.truth import WINDOW_MS, Truth, Violation, Window, milliseconds

# The application waits 3 s for what is late; the rest is for the way through two joins and a window.
CLOSED_AFTER_MS = 20_000
# How long after a driver's row has changed an event may still show the old one: batches, and a restart of Spark.
ROW_KNOWN_AFTER_MS = 60_000
DRIVER_FIELDS = ("driverName", "wagePlan", "certified")
FIELDS = {
    "Overspeed": "overspeed",
    "Lane Departure": "laneDeparture",
    "Unsafe following distance": "followingDistance",
    "Unsafe tail distance": "tailDistance",
}


@dataclass(slots=True)
class Results:
    """What was read from the application's topics."""

    dangerous: defaultdict[int, list[dict[str, object]]] = field(default_factory=lambda: defaultdict(list))
    enriched: defaultdict[int, list[dict[str, object]]] = field(default_factory=lambda: defaultdict(list))
    statistics: dict[int, dict[str, object]] = field(default_factory=dict)  # the newest of a driver
    alerts: defaultdict[Window, list[dict[str, object]]] = field(default_factory=lambda: defaultdict(list))
    rows: defaultdict[int, list[dict[str, object]]] = field(default_factory=lambda: defaultdict(list))  # of drivers
    dead_letters: Counter[bytes] = field(default_factory=Counter)

    def see(self, topic: str, value: bytes) -> None:
        if topic == topics.DEAD_LETTERS:
            self.dead_letters[value] += 1
            return
        row = json.loads(value)
        if topic == topics.DANGEROUS:
            self.dangerous[row["correlationId"]].append(row)
        elif topic == topics.ENRICHED:
            self.enriched[row["correlationId"]].append(row)
        elif topic == topics.STATISTICS:
            self.statistics[row["driverId"]] = row
        elif topic == topics.ALERTS:
            self.alerts[row["driverId"], milliseconds(row["window_start"])].append(row)
        elif topic == topics.DRIVERS:
            self.rows[row["after"]["id"]].append(row["after"])

    @property
    def repeated(self) -> int:
        found = [*self.dangerous.values(), *self.enriched.values(), *self.alerts.values()]
        return sum(len(rows) - 1 for rows in found) + sum(count - 1 for count in self.dead_letters.values())


def problems(truth: Truth, results: Results, *, restarted: bool) -> list[str]:
    """In sentences; none when everything is right. `restarted`: records may be there twice."""
    found = [
        *_statistics(truth, results),
        *_dangerous(truth, results),
        *_enriched(truth, results),
        *_alerts(truth, results),
        *_dead_letters(truth, results),
    ]
    if results.repeated and not restarted:
        found.append(f"{results.repeated} records were written twice although nothing was restarted")
    return found


def uncaptured(truth: Truth, results: Results) -> Iterator[str]:
    """The changelog beside the table: each row once, in order. The snapshot may already have the first changes."""
    for driver, told in sorted(truth.drivers.items()):
        rows = [row for _, row in told]
        found = results.rows.get(driver, [])
        if not any(found == rows[first:] for first in range(len(rows))):
            yield f"{topics.DRIVERS}: driver {driver} has the rows {found}, expected {rows}"


def _statistics(truth: Truth, results: Results) -> Iterator[str]:
    wrong = []
    for driver, events in sorted(truth.events.items()):
        kinds = truth.kinds[driver]
        expected = {"driverId": driver, "events": events, "violations": kinds.total()}
        expected |= {FIELDS[kind]: kinds[kind] for kind in FIELDS}
        if results.statistics.get(driver) != expected:
            wrong.append(f"{results.statistics.get(driver)}, expected {expected}")
    if wrong:
        yield f"{topics.STATISTICS}: {len(wrong)} of {len(truth.events)} drivers are wrong; the first is {wrong[0]}"


def _dangerous(truth: Truth, results: Results) -> Iterator[str]:
    yield from _compared_ids(topics.DANGEROUS, set(truth.violations), set(results.dangerous))
    for correlation, rows in results.dangerous.items():
        violation = truth.violations.get(correlation)
        for row in rows if violation else ():
            if (row["driverId"], row["eventType"]) != (violation.driver, violation.kind):  # type: ignore[union-attr]
                yield f"{topics.DANGEROUS}: {row} is not what was sent"


def _enriched(truth: Truth, results: Results) -> Iterator[str]:
    closed = {
        correlation
        for correlation, violation in truth.violations.items()
        # one without a speed comes when time says that no speed will come any more
        if violation.speed is not None or violation.time_ms + CLOSED_AFTER_MS < truth.newest_ms
    }
    extra = set(results.enriched) - set(truth.violations)
    yield from _compared_ids(topics.ENRICHED, closed, (set(results.enriched) & closed) | extra)
    for correlation, rows in results.enriched.items():
        if violation := truth.violations.get(correlation):
            yield from (wrong for row in rows for wrong in _enriched_row(truth, violation, row))


def _enriched_row(truth: Truth, violation: Violation, row: dict[str, object]) -> Iterator[str]:
    if row.get("speed") != violation.speed:
        yield f"{topics.ENRICHED}: event {row['correlationId']} has speed {row.get('speed')}, not {violation.speed}"
    yield from _driver_shown(truth, topics.ENRICHED, violation.driver, violation.time_ms, row)


def _driver_shown(truth: Truth, topic: str, driver: int, time_ms: int, row: dict[str, object]) -> Iterator[str]:
    """The row that was current then, or a newer one; a little older while batches are on their way."""
    oldest = truth.row_at(driver, time_ms - ROW_KNOWN_AFTER_MS)
    allowed = [tuple(map(known.get, DRIVER_FIELDS)) for _, known in truth.drivers[driver][oldest:]]
    shown = tuple(map(row.get, DRIVER_FIELDS))
    if shown not in allowed:
        yield f"{topic}: driver {driver} is shown as {shown}, expected one of {allowed}"


def _alerts(truth: Truth, results: Results) -> Iterator[str]:
    for (driver, start_ms), spree in sorted(truth.sprees.items()):
        rows = results.alerts.get((driver, start_ms), [])
        if not rows and start_ms + WINDOW_MS + CLOSED_AFTER_MS < truth.newest_ms:
            yield f"{topics.ALERTS}: none for driver {driver} at {start_ms}, expected {spree}"
        for row in rows:
            if (row["violations"], row["overspeeds"], row["kinds"]) != (
                spree.violations,
                spree.overspeeds,
                list(spree.kinds),
            ):
                yield f"{topics.ALERTS}: {row}, expected {spree}"
            yield from _driver_shown(truth, topics.ALERTS, driver, start_ms, row)
    for window in sorted(set(results.alerts) - set(truth.sprees)):
        yield f"{topics.ALERTS}: {results.alerts[window][0]} although there was no reason"


def _dead_letters(truth: Truth, results: Results) -> Iterator[str]:
    missing = set(truth.malformed) - set(results.dead_letters)
    extra = set(results.dead_letters) - set(truth.malformed)
    if missing:
        yield f"{topics.DEAD_LETTERS}: {len(missing)} malformed records are missing, one is {min(missing)!r}"
    if extra:
        yield f"{topics.DEAD_LETTERS}: {len(extra)} records were not malformed, one is {min(extra)!r}"


def _compared_ids(topic: str, expected: set[int], found: set[int]) -> Iterator[str]:
    if missing := expected - found:
        yield f"{topic}: {len(missing)} of {len(expected)} events are missing, the first is {min(missing)}"
    if extra := found - expected:
        yield f"{topic}: {len(extra)} events that were never sent, the first is {min(extra)}"
