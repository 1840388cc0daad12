"""Detects pauses of the whole machine: times when this process was not scheduled. They do not count as latency."""

from __future__ import annotations

import threading
import time

PAUSE_S = 0.005
NOTED_S = 0.1


class Standstills:
    def __init__(self) -> None:
        self._woke_s = time.perf_counter()
        self._noted: list[tuple[float, float]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def longest_s(self, began_s: float, ended_s: float) -> float:
        """The longest overlap of a pause with this time span."""
        # A pause that lasts until now is not recorded yet: the calling thread may be the first to wake up.
        all_of_them = [(self._woke_s, time.perf_counter()), *self._noted]
        return max(max(0.0, min(end, ended_s) - max(begin, began_s) - PAUSE_S) for begin, end in all_of_them)

    def _watch(self) -> None:
        while not self._stopped.wait(PAUSE_S):
            woke_s = time.perf_counter()
            if woke_s - self._woke_s > NOTED_S:
                self._noted.append((self._woke_s, woke_s))
            self._woke_s = woke_s
