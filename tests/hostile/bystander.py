"""A normal client that produces all the time and records the latency of each reply.

Pauses of the whole machine are subtracted. So is the time for which the client and the broker's event loop waited for a
CPU.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from hostile.standstills import Standstills
from support.waiting import wait_until
from traps.wire import Wire, batch, records_of

TOPIC = "bystander"
PAUSE_S = 0.005


class Bystander:
    def __init__(self, port: int, broker_pid: int) -> None:
        self._port = port
        self._event_loop = f"{broker_pid}/task/{broker_pid}"
        # Times of each request and its reply, and the wait for a CPU between them.
        self._served: list[tuple[float, float, float]] = []
        self._standstills = Standstills()
        self.acknowledged = 0
        self.failure: Exception | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def start(self) -> None:
        with Wire(self._port) as wire:
            wire.create_topic(TOPIC)
        self._standstills.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(30)
        self._standstills.stop()

    def latencies_s(self, served: int = 0) -> list[float]:
        """The latencies of the replies after the first `served` ones."""
        return [
            answered_s - asked_s - max(self._standstills.longest_s(asked_s, answered_s), waited_s)
            for asked_s, answered_s, waited_s in self._served[served:]
        ]

    def wait_for_more(self, count: int = 5) -> None:
        """Wait until it got `count` more replies."""
        wanted = self.acknowledged + count
        wait_until(
            lambda: self.acknowledged >= wanted or self.failure is not None or not self._thread.is_alive(),
            f"{count} more replies to the normal client",
            every_s=PAUSE_S,
        )
        if self.failure is not None:
            raise self.failure

    def stored(self) -> list[bytes]:
        found: list[bytes] = []
        with Wire(self._port) as wire:
            while len(found) < self.acknowledged:
                answer = wire.fetch(TOPIC, {0: len(found)})[0]
                records = records_of(answer.records)
                found += [record.value for record in records if record.offset >= len(found)]
        return found

    def _live(self) -> None:
        try:
            with Wire(self._port) as wire:
                while not self._stopped.is_set():
                    waited_s, started = self._waited_for_cpu_s(), time.perf_counter()
                    answer = wire.produce(TOPIC, batch(b"%d" % self.acknowledged))
                    assert answer.error_code == 0
                    ended = time.perf_counter()
                    self._served.append((started, ended, self._waited_for_cpu_s() - waited_s))
                    self.acknowledged += 1
                    self._stopped.wait(PAUSE_S)
        except Exception as failure:  # noqa: BLE001, raised in `wait_for_more`
            self.failure = failure

    def _waited_for_cpu_s(self) -> float:
        """How long this thread and the broker's event loop were ready to run, and other processes ran instead."""
        waits = (Path(f"/proc/{task}/schedstat").read_text().split()[1] for task in ("thread-self", self._event_loop))
        return sum(map(int, waits)) / 1e9
