"""Page views and orders from a seed: the same list each time. As a program, it sends them to a broker.

python examples/clickstream/visits.py [bootstrap servers]
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Producer

BEGIN = datetime(2026, 3, 2, 8, tzinfo=UTC)
LATE_S = 20
PAGES = ("home", "tea", "cups", "search", "basket")
CAMPAIGNS = ("spring", "search ads", "newsletter")


@dataclass(frozen=True, slots=True)
class Sent:
    """A record. Its timestamp is the time of its arrival, up to LATE_S after the event."""

    topic: str
    key: str
    value: dict[str, Any]
    arrived: datetime


def records(seed: int, visits: int) -> list[Sent]:
    """The records, in the order of their arrival."""
    chosen = random.Random(seed)
    found: list[Sent] = []
    begin = BEGIN
    for number in range(visits):
        begin += timedelta(seconds=chosen.randint(1, 900))
        found += _visit(chosen, f"visitor-{chosen.randrange(max(2, visits // 3))}", begin, number)
    found.sort(key=lambda record: record.arrived)
    # no two records arrive in the same millisecond: then topics and partitions would decide the order
    moved = [timedelta(milliseconds=number) for number in range(len(found))]
    return [Sent(one.topic, one.key, one.value, one.arrived + more) for one, more in zip(found, moved, strict=True)]


def _visit(chosen: random.Random, visitor: str, at: datetime, number: int) -> list[Sent]:
    found, campaign = [], chosen.choice(CAMPAIGNS)
    pages = [chosen.choice(PAGES) for _ in range(chosen.randint(1, 6))]
    buys = chosen.random() < 0.25
    for place, page in enumerate([*pages, "thanks"] if buys else pages):
        at += timedelta(seconds=chosen.randint(5, 400), milliseconds=number)
        view = {"visitor": visitor, "page": page, "campaign": campaign if place == 0 else "", "at": at.isoformat()}
        found.append(Sent("page_views", visitor, view, _arrival(chosen, at)))
    if buys:
        order = {"id": number, "visitor": visitor, "cents": chosen.randint(500, 20_000), "ordered": at.isoformat()}
        found.append(Sent("orders", visitor, order, _arrival(chosen, at)))
    return found


def _arrival(chosen: random.Random, at: datetime) -> datetime:
    return at + timedelta(seconds=chosen.randint(0, LATE_S - 1))


def end_of_day(found: list[Sent]) -> list[Sent]:
    """A view and an order long after all others, which close all open sessions."""
    at = found[-1].arrived + timedelta(hours=12)
    view = {"visitor": "nobody", "page": "home", "campaign": "", "at": at.isoformat()}
    order = {"id": -1, "visitor": "nobody", "cents": 1, "ordered": at.isoformat()}
    return [
        Sent("page_views", "nobody", view, at),
        Sent("orders", "nobody", order, at + timedelta(milliseconds=1)),
    ]


def send(bootstrap: str, found: list[Sent]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for record in found:
        arrived_ms = int(record.arrived.timestamp() * 1000)
        producer.produce(record.topic, json.dumps(record.value), record.key, timestamp=arrived_ms)
    producer.flush()


if __name__ == "__main__":
    day = records(seed=1, visits=200)
    send(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092", [*day, *end_of_day(day)])
