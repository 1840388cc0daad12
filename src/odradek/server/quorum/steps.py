"""Feeds the quorum's core one event at a time, and carries out its effects before the next. It has one timer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from odradek.base.ports import Ports
from odradek.metadata.metadata_log import write_election
from odradek.quorum.effects import Effect, PersistElection
from odradek.quorum.events import Event, Tick
from odradek.quorum.quorum import Quorum
from odradek.quorum.timing import Now

_CHANCES = 1 << 30


class QuorumSteps:
    """`carry_out` carries out an effect at once; elections are persisted here. `on_broken` is called on failures."""

    def __init__(
        self, ports: Ports, *, carry_out: Callable[[Effect], None], on_broken: Callable[[Exception], None]
    ) -> None:
        self._ports = ports
        self._carry_out = carry_out
        self._on_broken = on_broken
        # Set before the first event.
        self.core: Quorum
        self._inbox: deque[Event] = deque()
        self._effects: deque[Effect] = deque()
        self._stepping = False
        self._settled = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        # Later events are ignored.
        self.is_over = False

    def tell(self, event: Event) -> None:
        if self.is_over:
            return
        self._inbox.append(event)
        if not self._stepping:
            self._stepping = True
            self._go_on()

    def tell_next(self, event: Event) -> None:
        """Handled before all other events. Only for `carry_out`."""
        self._inbox.appendleft(event)

    async def quiet(self) -> None:
        """Waits until nothing is left to carry out."""
        while self._stepping:
            await self.after_the_next()

    async def after_the_next(self) -> None:
        self._settled.clear()
        await self._settled.wait()

    def end(self) -> None:
        self.is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _go_on(self) -> None:
        """After half a step, or a commit that cannot be applied, nothing may follow, whatever the event's source."""
        try:
            self._work_off()
        except Exception as broken:  # noqa: BLE001 any failure here stops the node
            self._break_off(broken)

    def _break_off(self, broken: Exception) -> None:
        """A caller of `quiet` that stops the node must not wait for ever."""
        self._on_broken(broken)
        self._stepping = False
        self._settled.set()

    def _work_off(self) -> None:
        while True:
            while self._effects:
                effect = self._effects.popleft()
                if isinstance(effect, PersistElection):
                    self._ports.spawner.spawn("quorum state", self._persist(effect))
                    return
                self._carry_out(effect)
            if not self._inbox:
                break
            self._effects.extend(self.core.step(self._inbox.popleft(), self._now()))
        self._stepping = False
        self._settled.set()
        self._set_timer()

    async def _persist(self, effect: PersistElection) -> None:
        try:
            await self._ports.spawner.blocking(write_election, self._ports.disk, effect.election)
        except OSError as broken:
            self._break_off(broken)
            return
        self._go_on()

    def _now(self) -> Now:
        return Now(self._ports.clock.monotonic_ms(), self._ports.rng.below(_CHANCES) / _CHANCES)

    def _set_timer(self) -> None:
        deadline_ms = self.core.deadline_ms
        if deadline_ms == self._timer_ms and self._timer is not None and not self._timer.cancelled():
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_ms = None, deadline_ms
        if deadline_ms is not None and not self.is_over:
            wait_ms = max(0, deadline_ms - self._ports.clock.monotonic_ms())
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_ms = None
        self.tell(Tick())
