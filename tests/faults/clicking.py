"""The input and the expected output: clicks and orders in seeded order, counted and joined in plain Python."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer

from faults.counting import CLICKS, ORDERS, PEOPLE

Window = tuple[str, datetime]
"""A user and the start of a window."""
Sale = tuple[str, int, str]
"""User, price, and the user's name."""

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW_S = 10
ROUND = timedelta(days=1)
USERS = 12
# A chunk is acknowledged before the next is sent. With its out-of-order clicks it spans 6 seconds, so no click is late.
CHUNK = 40
CHUNK_S = 2.0
OUT_OF_ORDER_S = 4.0
PAUSE_S = 0.1
ACKNOWLEDGED_TIMEOUT_S = 120.0
CLOSER = "closer"
ORDERED = 0.25  # the share of clicks with an order
BROKEN = 0.02  # the share of records that cannot be parsed


class Clicks:
    """Writes on a thread from `begin` to `end` of a round. Rounds are a day apart in event time."""

    def __init__(self, bootstrap: str) -> None:
        self.counts: Counter[Window] = Counter()
        self.sales: dict[int, Sale] = {}  # by click
        self.broken: set[bytes] = set()
        self.sent = 0
        self.chunks = 0  # acknowledged, in this round
        self._closed_before = BEGINNING
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "message.timeout.ms": int(ACKNOWLEDGED_TIMEOUT_S * 1000),
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        for user in range(USERS):
            row = {"user": f"user-{user}", "name": f"name of {user}"}
            # A join takes the row of the table that was valid at the time of the click.
            self._producer.produce(PEOPLE, json.dumps(row), row["user"], timestamp=int(BEGINNING.timestamp() * 1000))
        self._wait_for_acknowledgement()
        self._round = 0
        self._rng = random.Random(0)
        self._ending = threading.Event()
        self._flowing = threading.Event()
        self._flowing.set()
        self._thread: threading.Thread | None = None
        self._problem: BaseException | None = None

    def begin(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._round += 1
        self.chunks = 0
        self._ending.clear()
        self._thread = threading.Thread(target=self._run, name="clicks", daemon=True)
        self._thread.start()

    def pause(self) -> None:
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    def end(self) -> None:
        """Wait until all clicks are acknowledged. A last click, much later, closes every window of the round."""
        assert self._thread is not None
        self._ending.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem
        self._closed_before = BEGINNING + (self._round + 0.5) * ROUND
        self._send(CLOSER, self._closed_before)
        self._order(-1, self._closed_before)
        self._wait_for_acknowledgement()

    def final(self) -> dict[Window, int]:
        """The counts of closed windows."""
        return {window: count for window, count in self.counts.items() if window[1] < self._closed_before}

    def _run(self) -> None:
        try:
            while not self._ending.wait(PAUSE_S):
                if self._flowing.is_set():
                    self._send_chunk()
        except BaseException as problem:  # noqa: BLE001 (told by `end`, on the thread of the test)
            self._problem = problem

    def _send_chunk(self) -> None:
        begins = BEGINNING + self._round * ROUND + timedelta(seconds=self.chunks * CHUNK_S)
        for _ in range(CHUNK):
            after_s = self._rng.uniform(-OUT_OF_ORDER_S, CHUNK_S)
            number = self._rng.randrange(USERS)
            at = begins + timedelta(seconds=after_s)
            click = self._send(f"user-{number}", at)
            if self._rng.random() < ORDERED:
                self.sales[click] = f"user-{number}", self._order(click, at), f"name of {number}"
            if self._rng.random() < BROKEN:
                self._send_broken()
        self._wait_for_acknowledgement()
        self.chunks += 1

    def _send(self, user: str, at: datetime) -> int:
        self.sent += 1
        row = {"id": self.sent, "user": user, "at": at.isoformat()}
        self._producer.produce(CLICKS, json.dumps(row), user)
        self.counts[user, at - timedelta(seconds=at.timestamp() % WINDOW_S)] += 1
        return self.sent

    def _order(self, click: int, at: datetime) -> int:
        price = self._rng.randrange(1000)
        self._producer.produce(ORDERS, json.dumps({"click": click, "price": price, "at": at.isoformat()}), str(click))
        return price

    def _send_broken(self) -> None:
        value = f"no JSON after {self.sent}".encode()
        self.broken.add(value)
        self._producer.produce(CLICKS, value, "broken")

    def _wait_for_acknowledgement(self) -> None:
        assert self._producer.flush(ACKNOWLEDGED_TIMEOUT_S) == 0, "the broker accepts no clicks"
