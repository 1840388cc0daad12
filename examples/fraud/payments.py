"""Payments from a seed: the same list each time. As a program, it sends them to a broker.

python examples/fraud/payments.py [bootstrap servers]
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
LATE_S = 30
CITIES = {"Wien": (0.0, 0.0), "Graz": (20.0, -140.0), "Oslo": (-390.0, 1300.0), "Rom": (-310.0, -700.0)}
CARDS = tuple(f"card-{number}" for number in range(6))


@dataclass(frozen=True, slots=True)
class Sent:
    """A record. Its timestamp is the time of its arrival, up to LATE_S after the event."""

    topic: str
    key: str
    value: dict[str, Any] | None
    arrived: datetime


def records(seed: int, count: int) -> list[Sent]:
    """The records, in the order of their arrival. Customers come first; a few change or leave later."""
    chosen = random.Random(seed)
    found = [_customer(card, "first", BEGIN) for card in CARDS[:-1]]
    changes = set(chosen.sample(range(20, count), 3))
    home, now = {card: chosen.choice(list(CITIES)) for card in CARDS}, BEGIN + timedelta(minutes=1)
    spree: list[tuple[str, int]] = []
    for number in range(count):
        now += timedelta(seconds=chosen.choice((5, 10, 20, 40, 90, 1200 if number % 40 == 39 else 60)))
        if number in changes:
            card = chosen.choice(CARDS)
            found.append(_customer(card, f"changed {number}", now) if chosen.random() < 0.7 else _gone(card, now))
            now += timedelta(seconds=1)
        if not spree and chosen.random() < 0.1:
            card = chosen.choice(CARDS)
            spree = [(card, chosen.randint(10, 500)) for _ in range(chosen.randint(2, 5))] + [(card, 90_000)]
        card, cents = spree.pop(0) if spree else (chosen.choice(CARDS), chosen.choice((300, 2_000, 8_000, 60_000)))
        if chosen.random() < 0.08:
            home[card] = chosen.choice(list(CITIES))
        x_km, y_km = CITIES[home[card]]
        at = now - timedelta(seconds=chosen.randint(0, LATE_S))
        value = {"id": number, "card": card, "cents": cents, "x_km": x_km, "y_km": y_km, "at": at.isoformat()}
        found.append(Sent("payments", card, value, now))
    return found


def end_of_day(found: list[Sent]) -> list[Sent]:
    """A payment long after all others, which closes all open sessions."""
    at = found[-1].arrived + timedelta(hours=8)
    value = {"id": -1, "card": "nobody", "cents": 1, "x_km": 0.0, "y_km": 0.0, "at": at.isoformat()}
    return [Sent("payments", "nobody", value, at)]


def _customer(card: str, state: str, at: datetime) -> Sent:
    return Sent("customers", card, {"card": card, "name": f"{card}'s owner, {state}", "phone": f"+43 {card[5:]}"}, at)


def _gone(card: str, at: datetime) -> Sent:
    return Sent("customers", card, None, at)


def send(bootstrap: str, found: list[Sent]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for record in found:
        value = None if record.value is None else json.dumps(record.value)
        producer.produce(record.topic, value, record.key, timestamp=int(record.arrived.timestamp() * 1000))
    producer.flush()


if __name__ == "__main__":
    day = records(seed=1, count=400)
    send(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092", [*day, *end_of_day(day)])
