"""The time of a coordinator under test: a clock that a test advances, and the timers of one shard."""

from __future__ import annotations

from typing import Any

from odradek.coordinator.effects import Effects, Now
from odradek.coordinator.timers import Timers

START_MS = 1_000_000


class VirtualTime:
    """A story that drives a shard inherits from it, and performs the effects of a timer."""

    shard: Any

    def __init__(self) -> None:
        self.ms = START_MS
        self.timers: Timers = Timers()

    @property
    def now(self) -> Now:
        return Now(self.ms, self.ms)

    def perform(self, effects: Effects) -> None:
        raise NotImplementedError

    def set_timers(self, effects: Effects) -> None:
        for key, deadline in effects.timers.items():
            if deadline is None:
                self.timers.cancel(key)
            else:
                self.timers.set(key, deadline)

    def pass_time(self, ms: int) -> None:
        """Advance the time. Every timer fires at its own time."""
        end = self.ms + ms
        while (at := self.timers.next_wakeup()) is not None and at <= end:
            self.ms = max(self.ms, at)
            for key in self.timers.due(self.ms, 1):
                self.perform(self.shard.timer_fired(key, self.now))
        self.ms = end
