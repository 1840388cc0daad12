"""The ports of a simulated host, with the same interfaces as the real ones in `adapters`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from odradek.base.steps import Rest, Steps, in_steps
from odradek.sim.loop import MILLISECOND_NS, PPM, Host, SimLoop

T = TypeVar("T")

# An ordinary moment for a record to be written; any fixed one would do.
WALL_START_MS = 1_800_000_000_000


class SimClock:
    """`wall_offset_ms` may be changed at any time: wall clocks jump."""

    def __init__(self, loop: SimLoop, tempo_ppm: int = PPM) -> None:
        self._loop = loop
        self.tempo_ppm = tempo_ppm
        self.wall_offset_ms = 0

    def monotonic_ms(self) -> int:
        return self._loop.now_ns * self.tempo_ppm // PPM // MILLISECOND_NS

    def monotonic_ns(self) -> int:
        return self._loop.now_ns * self.tempo_ppm // PPM

    def wall_ms(self) -> int:
        return WALL_START_MS + self.wall_offset_ms + self.monotonic_ms()


class SimSpawner:
    """`on_failure` is called with each exception that escaped a task, `on_done` with each slow call and its result."""

    def __init__(
        self,
        loop: SimLoop,
        host: Host,
        rng: Random,
        slow_call_mean_us: int,
        on_failure: Callable[[str, BaseException], None],
        on_done: Callable[[Callable[..., Any], Any], None],
    ) -> None:
        self._on_failure = on_failure
        self._on_done = on_done
        self._loop = loop
        self._host = host
        self._rng = rng
        self._slow_call_mean_us = slow_call_mean_us

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (escaped := task.exception()) is not None:
            self._on_failure(task.get_name(), escaped)

    def blocking(self, call: Callable[..., T], *args: Any) -> Awaitable[T]:
        """The call happens at one instant, its result is known later: work between the two is not covered."""
        outcome: asyncio.Future[T] = self._loop.create_future()
        self._loop.call_at_ns(self._later_ns(), self._host, self._perform, outcome, call, args)
        return outcome

    def apart(self, work: Callable[..., Steps[T]], *args: Any, rest: Rest) -> Awaitable[T]:
        return in_steps(self.blocking, work(*args), rest)

    def _perform(self, outcome: asyncio.Future[T], call: Callable[..., T], args: tuple[Any, ...]) -> None:
        try:
            result = call(*args)
        except Exception as failure:  # noqa: BLE001 - whatever the call raises belongs to whoever awaits it
            self._loop.call_at_ns(self._later_ns(), self._host, _deliver, outcome, outcome.set_exception, failure)
        else:
            self._on_done(call, result)
            self._loop.call_at_ns(self._later_ns(), self._host, _deliver, outcome, outcome.set_result, result)

    def _later_ns(self) -> int:
        return self._loop.now_ns + int(self._rng.expovariate(1.0) * self._slow_call_mean_us) * 1000


def _deliver(outcome: asyncio.Future[Any], deliver: Callable[[Any], None], result: Any) -> None:
    if not outcome.done():
        deliver(result)
