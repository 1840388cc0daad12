"""Measures the event loop of a node: how late it runs timers, and how much of a CPU it uses."""

from __future__ import annotations

import asyncio
import time

from odradek.monitor.catalogue.broker import HANDLER_IDLE, LOOP_LATENCY, NETWORK_IDLE, PROCESSOR, PROCESSOR_IDLE
from odradek.monitor.registry import Registry

INTERVAL_S = 0.1
_NS = 1_000_000_000


class LoopMetrics:
    """Begins on the event loop. Its callbacks run on the thread of the loop, whose CPU time they read."""

    def __init__(self, registry: Registry) -> None:
        self._latency = registry.timer(LOOP_LATENCY)
        self._loop = asyncio.get_running_loop()
        self._busy_ns = time.thread_time_ns()
        self._expected_ns = 0
        self._timer: asyncio.TimerHandle
        self._schedule()
        for metric, *labels in ((HANDLER_IDLE,), (NETWORK_IDLE,), (PROCESSOR_IDLE, PROCESSOR)):
            registry.rate(metric, self._idle_ns, *labels, scale=1 / _NS)

    def stop(self) -> None:
        self._timer.cancel()

    def _schedule(self) -> None:
        self._expected_ns = time.monotonic_ns() + int(INTERVAL_S * _NS)
        self._timer = self._loop.call_later(INTERVAL_S, self._look)

    def _look(self) -> None:
        self._latency.observe(time.monotonic_ns() - self._expected_ns)
        self._busy_ns = time.thread_time_ns()
        self._schedule()

    def _idle_ns(self) -> int:
        return time.monotonic_ns() - self._busy_ns
