"""The time from an event to its result in the output topic, for each output topic of the trucking application."""

from __future__ import annotations

import bisect
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from odradek.demo.trucking import topics
from odradek.demo.trucking.truth import WINDOW_MS, milliseconds

SPEEDLESS = f"{topics.ENRICHED}, no speed"
# The start point of each latency.
MEANING = {
    topics.DANGEROUS: "from the event to its record",
    topics.STATISTICS: "from each event to the first count of its driver that includes it",
    topics.ENRICHED: "from the event to its record, where a speed was found",
    SPEEDLESS: "the same where no speed was sent: event time has to pass by 4 s before that is known",
    topics.ALERTS: "from the end of the window, which stays open for 3 s",
}


@dataclass(frozen=True, slots=True)
class Latency:
    row: str  # a key of MEANING
    event_ms: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Seen:
    """A record of an output topic, and when the broker appended it, or the marker of its transaction."""

    topic: str
    value: bytes
    appended_ms: int


def latencies(positions: Iterable[tuple[int, int]], results: Iterable[Seen]) -> list[Latency]:
    """`positions`: driver and time of every position that can be parsed, in the order in which they were sent."""
    found: list[Latency] = []
    counts: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # driver -> (events, appended)
    for result in results:
        if result.topic == topics.STATISTICS:
            row = json.loads(result.value)
            counts[row["driverId"]].append((row["events"], result.appended_ms))
        elif result.topic != topics.DEAD_LETTERS:
            found.append(_of_record(result))
    return found + list(_of_counts(positions, counts))


def _of_record(result: Seen) -> Latency:
    row = json.loads(result.value)
    name = result.topic
    if name == topics.ALERTS:
        event_ms = milliseconds(row["window_start"]) + WINDOW_MS
    else:
        event_ms = milliseconds(row["eventTime"])
        if name == topics.ENRICHED and row.get("speed") is None:
            name = SPEEDLESS
    return Latency(name, event_ms, (result.appended_ms - event_ms) / 1000)


def _of_counts(positions: Iterable[tuple[int, int]], counts: dict[int, list[tuple[int, int]]]) -> Iterator[Latency]:
    """A driver's Nth event has its result in the first count that is at least N."""
    numbers: defaultdict[int, int] = defaultdict(int)
    for rows in counts.values():
        rows.sort()
    for driver, event_ms in positions:
        numbers[driver] += 1
        rows = counts.get(driver, [])
        place = bisect.bisect_left(rows, (numbers[driver], 0))
        if place < len(rows):
            yield Latency(topics.STATISTICS, event_ms, (rows[place][1] - event_ms) / 1000)


def quantile(ordered: list[float], share: float) -> float:
    """A quantile of a sorted list, by nearest rank."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def figures(seconds: Iterable[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    if not ordered:
        return {"n": 0}
    told = {f"p{round(100 * share)}": quantile(ordered, share) for share in (0.5, 0.9, 0.99)}
    return {"n": len(ordered), **told, "max": ordered[-1]}


def by_period(found: Iterable[Latency], start_ms: int, period_ms: int) -> dict[str, dict[int, list[float]]]:
    """Seconds by row and number of the period in which the event happened."""
    periods: dict[str, dict[int, list[float]]] = {row: defaultdict(list) for row in MEANING}
    for one in found:
        periods[one.row][max(0, (one.event_ms - start_ms) // period_ms)].append(one.seconds)
    return periods
