"""Reads card payments; writes alerts with the customer's name, and the sessions of each card.

    odradek topic create payments customers -p 3 -c retention.ms=-1   # the payments are of March 2026
    odradek streams run examples/fraud/app.py            # runs until Ctrl-C
    python examples/fraud/payments.py                    # another terminal: 400 payments, always the same
    odradek consume alerts -o beginning

An alert is many small payments followed by a large one within minutes, or a card that travels faster than an airliner.
A session ends when a card has no payment for a quarter of an hour. The output does not depend on how payments are
grouped into micro-batches: `test_fraud.py` compares it, record by record, with `recomputed.py` in plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from odradek.streams import App, State, Timers

SMALL, LARGE = 500, 50_000  # cents
SMALL_ONES = 3
TESTING = timedelta(minutes=5)
FASTEST_KM_H = 900
SILENCE = timedelta(minutes=15)


@dataclass
class Payment:
    id: int
    card: str
    cents: int
    x_km: float
    y_km: float
    at: datetime


@dataclass
class Customer:
    card: str
    name: str
    phone: str


@dataclass
class Alert:
    card: str
    kind: str
    payment: int
    cents: int
    figure: int  # how many small payments, or how many kilometres


@dataclass
class Session:
    card: str
    payments: int
    cents: int
    began: datetime
    ended: datetime


@dataclass
class Place:
    x_km: float
    y_km: float
    at: datetime


app = App("fraud")
payments = app.stream("payments", schema=Payment, time="at", late="30 seconds", key="card")
customers = app.table("customers", schema=Customer, key="card")


@payments.process(out=Alert)
def alerts(card: str, rows: Iterator[Any], small: State[list[datetime]], last: State[Place]) -> Iterator[Alert]:
    for row in rows:
        recent = [at for at in small.value or [] if row.at - at <= TESTING]
        if row.cents >= LARGE and len(recent) >= SMALL_ONES:
            yield Alert(card, "card testing", row.id, row.cents, len(recent))
            recent = []
        elif row.cents <= SMALL:
            recent.append(row.at)
        small.value = recent
        before, last.value = last.value, Place(row.x_km, row.y_km, row.at)
        if before is not None:
            far = math.dist((before.x_km, before.y_km), (row.x_km, row.y_km))
            hours = abs(row.at - before.at) / timedelta(hours=1)
            if far > hours * FASTEST_KM_H:
                yield Alert(card, "impossible travel", row.id, row.cents, round(far))


@payments.process(out=Session)
class Sessions:
    """The sessions of a card: its payments until a quarter of an hour passes without one."""

    def on_rows(self, card: str, rows: Iterator[Any], session: State[Session], timers: Timers) -> None:
        for row in rows:
            now = session.value or Session(card, 0, 0, row.at, row.at)
            now = Session(card, now.payments + 1, now.cents + row.cents, min(now.began, row.at), max(now.ended, row.at))
            session.value = now
            timers.clear()
            timers.at(now.ended + SILENCE)

    def on_timer(self, _card: str, _at: datetime, session: State[Session]) -> Iterator[Session]:
        if session.value is not None:
            yield session.value
            session.clear()


alerts.join(customers, on="card", how="left").to("alerts", key="card")
Sessions.to("card_sessions", key="card")

if __name__ == "__main__":
    app.run()
