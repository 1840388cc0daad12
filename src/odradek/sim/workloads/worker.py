"""The base of every simulated client: a session, work, and a new session when anything breaks."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from odradek.sim.client import Address, ClientHost
from odradek.sim.history import History
from odradek.sim.ports import SimClock
from odradek.sim.workloads.refusals import AskAgain
from odradek.sim.workloads.session import Session

RECONNECT_S = 0.05


@dataclass(slots=True, kw_only=True)
class Errand:
    """What a client is given for a run."""

    client: ClientHost
    # How many nodes there are: with several, one may know what another does not know yet.
    nodes: int
    rng: Random
    clock: SimClock
    history: History
    # In which leader epoch the broker at an address coordinates a group; None when another one does.
    in_charge: Callable[[Address, str], int | None]
    # How often a node went down uncleanly so far.
    crashes: Callable[[], int]
    # Writes one line to the run's trace.
    note: Callable[[str], None]
    # Set when clients must not begin new work, only finish what they have begun.
    closing: asyncio.Event
    request_timeout_s: float
    pause_mean_s: float

    async def pause(self, times: float = 1.0) -> None:
        await asyncio.sleep(self.rng.expovariate(1.0) * self.pause_mean_s * times)


class Worker(ABC):
    def __init__(self, name: str, errand: Errand) -> None:
        self.name = name
        self.errand = errand
        self.rng = errand.rng
        self.history = errand.history

    async def run(self) -> None:
        """Works until closing, and until nothing is left open."""
        while not self.finished():
            session = Session(self.errand.client, self.rng, self.errand.request_timeout_s)
            try:
                await self.work(session)
            except ConnectionRefusedError:
                self.interrupted()
                await asyncio.sleep(RECONNECT_S)
                continue
            except (ConnectionError, TimeoutError, AskAgain) as why:
                self.errand.note(f"starts over: {why or type(why).__name__}")
                self.interrupted()
            finally:
                session.close()
            await self.errand.pause()

    def finished(self) -> bool:
        return self.errand.closing.is_set()

    @abstractmethod
    async def work(self, session: Session) -> None:
        """Until it is done, or the session breaks."""

    def interrupted(self) -> None:
        """The session is over; the outcome of the requests under way is unknown."""
