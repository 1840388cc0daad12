"""The expected rows of the trucking application, computed in plain Python; and the rows that were written."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from trucking_latency import Seen

from odradek.demo.trucking import topics
from odradek.demo.trucking.checking import CLOSED_AFTER_MS, DRIVER_FIELDS, FIELDS
from odradek.demo.trucking.fleet import NORMAL, Record
from odradek.demo.trucking.truth import WINDOW_MS, Truth, milliseconds, truth_of

POSITION = (
    "eventTime",
    "truckId",
    "driverId",
    "routeId",
    "route",
    "eventType",
    "latitude",
    "longitude",
    "correlationId",
)
TIMES = ("eventTime", "window_start", "window_end")
EXAMPLES = 2

Rows = dict[str, dict[Any, Any]]  # topic -> key of a row -> the row


def expected(records: list[Record], drivers: list[Record]) -> tuple[Rows, Rows]:
    """The required rows, and the allowed rows: these are written only when event time advances further."""
    truth = truth_of([*drivers, *records])
    must: Rows = defaultdict(dict)
    may: Rows = defaultdict(dict)
    for event in positions(records):
        if event["eventType"] != NORMAL:
            correlation = event["correlationId"]
            row = normal({name: event[name] for name in POSITION})
            must[topics.DANGEROUS][correlation] = row
            violation = truth.violations[correlation]
            closed = violation.speed is not None or violation.time_ms + CLOSED_AFTER_MS < truth.newest_ms
            enriched = {**row, "speed": violation.speed, **driver_of(truth, violation.driver)}
            (must if closed else may)[topics.ENRICHED][correlation] = normal(enriched)
    for driver, events in truth.events.items():
        kinds = truth.kinds[driver]
        counts = {FIELDS[kind]: kinds[kind] for kind in FIELDS}
        must[topics.STATISTICS][driver] = {"driverId": driver, "events": events, "violations": kinds.total(), **counts}
    for (driver, start), spree in truth.sprees.items():
        closed = start + WINDOW_MS + CLOSED_AFTER_MS < truth.newest_ms
        reckless = "Reckless driving" if len(spree.kinds) > 1 else "Dangerous driving"
        row = {
            "driverId": driver,
            "window_start": start,
            "window_end": start + WINDOW_MS,
            "violations": spree.violations,
            "overspeeds": spree.overspeeds,
            "kinds": list(spree.kinds),
            "alert": "High speed" if spree.overspeeds >= 5 else reckless,
            **driver_of(truth, driver),
        }
        (must if closed else may)[topics.ALERTS][driver, start] = row
    must[topics.DEAD_LETTERS] = dict(truth.malformed)
    return must, may


def positions(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    for record in records:
        if record.topic == topics.POSITIONS:
            try:
                yield json.loads(record.value)
            except ValueError:
                continue


def driver_of(truth: Truth, driver: int) -> dict[str, object]:
    _, row = truth.drivers[driver][-1]
    return {name: row[name] for name in DRIVER_FIELDS}


def normal(row: dict[str, Any]) -> dict[str, Any]:
    """Times as numbers; a null field and a missing field are the same."""
    return {
        name: milliseconds(value) if name in TIMES and isinstance(value, str) else value
        for name, value in row.items()
        if value is not None
    }


def written(results: Iterable[Seen]) -> tuple[Rows, Counter[str]]:
    """The rows, and how many rows of each topic were written again although nothing was restarted."""
    rows: Rows = defaultdict(dict)
    repeated: Counter[str] = Counter()
    letters: Counter[bytes] = Counter()
    for result in results:
        if result.topic == topics.DEAD_LETTERS:
            letters[result.value] += 1
            continue
        row = normal(json.loads(result.value))
        key = named(result.topic, row)
        if key in rows[result.topic] and result.topic != topics.STATISTICS:
            repeated[result.topic] += 1
        # The highest count of a driver is the last one. (Only records within one partition are in order.)
        if result.topic != topics.STATISTICS or row["events"] >= rows[result.topic].get(key, row)["events"]:
            rows[result.topic][key] = row
    rows[topics.DEAD_LETTERS] = dict(letters)
    return rows, repeated


def named(topic: str, row: dict[str, Any]) -> Any:
    if topic == topics.STATISTICS:
        return row["driverId"]
    return (row["driverId"], row["window_start"]) if topic == topics.ALERTS else row["correlationId"]


def differences(must: Rows, may: Rows, found: Rows) -> list[str]:
    told = []
    for topic in topics.OUTPUTS:
        wanted, allowed, there = must[topic], may.get(topic, {}), found.get(topic, {})
        missing = [wanted[key] for key in wanted.keys() - there.keys()]
        extra = [there[key] for key in there.keys() - wanted.keys() - allowed.keys()]
        every = {**allowed, **wanted}
        wrong = [(there[key], every[key]) for key in there.keys() & every.keys() if there[key] != every[key]]
        for what, rows in (("are missing", missing), ("are too many", extra), ("differ (found, expected)", wrong)):
            if rows:
                told.append(f"{topic}: {len(rows)} of {len(wanted)} {what}, as {rows[:EXAMPLES]}")
    return told


def events_between(rows: Rows, since_ms: int, until_ms: int) -> Rows:
    """All rows, except that rows of the stream join are limited to events between two moments."""
    joined = {key: row for key, row in rows[topics.ENRICHED].items() if since_ms <= row["eventTime"] < until_ms}
    return {**rows, topics.ENRICHED: joined}
