"""The fleet's radio: writes what the fleet says to its topics, and keeps a broker's absence from tearing time apart.

The fleet's clock never runs more than `AHEAD_MS` past the oldest record that is not acknowledged yet. While the broker
is away the trucks wait; afterwards nothing is lost, and no partition is ever further ahead of another than that: the
application's grace can be short and still never drop a record as late.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from odradek.demo.trucking.drivers import Driver
from odradek.demo.trucking.fleet import Fleet, Record
from odradek.demo.trucking.topics import DRIVERS

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

AHEAD_MS = 2_000
TICK_S = 0.05


class Simulator:
    def __init__(
        self,
        bootstrap: str,
        fleet: Fleet,
        sent: Callable[[Record], None],
        changed: Callable[[Record], None] | None = None,
    ) -> None:
        """`changed` gets the records about drivers, for their database. Without it, they go to their topic."""
        self._fleet = fleet
        self._sent = sent
        self._changed = changed
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 0,  # a truck does not give up
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._fleet_lock = threading.Lock()
        self._unacknowledged: dict[int, int] = {}  # number -> time of the record, oldest first
        self._number = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulator", daemon=True)
        self.failures: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The trucks stand. What they said last may still be `on_their_way`, for as long as the broker is away."""
        self._stop.set()
        self._thread.join()

    def on_their_way(self) -> int:
        """How many records are not acknowledged yet; to be asked after `stop`."""
        left: int = self._producer.flush(0)
        return left

    @property
    def waiting(self) -> bool:
        """For the broker, since a while."""
        oldest = next(iter(tuple(self._unacknowledged.values())), None)
        return oldest is not None and time.time() * 1000 - oldest > AHEAD_MS

    def change_driver(self, driver_id: int, told: Callable[[Driver], None]) -> None:
        """`told` gets the row as it will be, before anything else does."""
        with self._fleet_lock:
            self._fleet.change_driver(driver_id)
            told(self._fleet.drivers.rows[driver_id])

    def _run(self) -> None:
        while not self._stop.wait(TICK_S):
            now_ms = int(time.time() * 1000)
            oldest = next(iter(self._unacknowledged.values()), now_ms)
            with self._fleet_lock:
                records = self._fleet.step(min(now_ms, oldest + AHEAD_MS))
            for record in records:
                self._send(record)
            self._producer.poll(0)

    def _send(self, record: Record) -> None:
        if record.topic == DRIVERS and self._changed is not None:
            self._sent(record)
            self._changed(record)
            return
        self._number += 1
        number = self._number
        self._unacknowledged[number] = record.time_ms

        def delivered(error: KafkaError | None, _message: Message) -> None:
            del self._unacknowledged[number]
            if error is not None:
                self.failures.append(str(error))

        self._producer.produce(record.topic, record.value, record.key, timestamp=record.time_ms, on_delivery=delivered)
        self._sent(record)
