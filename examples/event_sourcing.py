"""Event sourcing: events are stored, and the current state is computed from them.

python examples/event_sourcing.py       # against 127.0.0.1:9092; `odradek up` starts a broker there

Accounts are never updated. Deposits and withdrawals are events, keyed by account and kept forever. A balance is the sum
of an account's events, now or at any time in the past.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from odradek.client import Admin, Consumer, Producer, json_of


@dataclass
class Moved:
    account: str
    cents: int
    why: str


def record(bootstrap: str, events: list[tuple[datetime, Moved]]) -> None:
    Admin(bootstrap).create_topic("account-events", partitions=3, config={"retention.ms": "-1"})
    with Producer(bootstrap, key=str, value=json_of(Moved)) as producer:
        for moment, event in events:
            producer.send("account-events", event, key=event.account, timestamp=moment).result()


def balances(bootstrap: str, at: datetime | None = None) -> Counter[str]:
    """The balances now, or at a given time."""
    balance: Counter[str] = Counter()
    with Consumer("account-events", bootstrap=bootstrap, value=Moved, stop_at_end=True) as consumer:
        for event in consumer:
            if at is None or (event.timestamp is not None and event.timestamp <= at):
                balance[event.value.account] += event.value.cents
    return balance


def run(bootstrap: str) -> tuple[Counter[str], Counter[str]]:
    monday, tuesday = (datetime(2026, 11, day, 9, tzinfo=UTC) for day in (9, 10))
    record(
        bootstrap,
        [
            (monday, Moved("gregor", 10_000, "salary")),
            (monday, Moved("grete", 2_500, "violin lesson")),
            (tuesday, Moved("gregor", -4_200, "rent")),
            (tuesday, Moved("grete", -300, "milk")),
        ],
    )
    return balances(bootstrap, at=monday), balances(bootstrap)


if __name__ == "__main__":
    on_monday, now = run(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
    for account in now:
        print(f"{account}: {on_monday[account] / 100:.2f} on Monday, {now[account] / 100:.2f} now")
