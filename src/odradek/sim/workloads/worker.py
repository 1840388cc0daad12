"""The frame of every simulated client: connect, work, and when anything breaks, connect again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from odradek.base.errors import ErrorCode
from odradek.sim.client import BrokerConnection, ClientHost
from odradek.sim.history import History, Violation
from odradek.sim.ports import SimClock

# What a well-behaved client answers by asking again later.
RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


RECONNECT_S = 0.05


class AskAgain(Exception):
    """The broker's answer was a retriable error: start over on a new connection."""


@dataclass(slots=True, kw_only=True)
class Errand:
    """What a client is given for a run."""

    client: ClientHost
    rng: Random
    clock: SimClock
    history: History
    # How often the node went down uncleanly so far.
    crashes: Callable[[], int]
    # One line for the run's story.
    note: Callable[[str], None]
    # Set when no new work is to be begun; what was begun is brought to an end.
    closing: asyncio.Event
    request_timeout_s: float
    pause_mean_s: float

    async def pause(self, times: float = 1.0) -> None:
        await asyncio.sleep(self.rng.expovariate(1.0) * self.pause_mean_s * times)


class Worker:
    def __init__(self, name: str, errand: Errand) -> None:
        self.name = name
        self.errand = errand
        self.rng = errand.rng
        self.history = errand.history

    async def run(self) -> None:
        """Until closing, and until nothing is left open."""
        while not self.finished():
            try:
                connection = await self.errand.client.connect()
            except ConnectionError:
                await asyncio.sleep(RECONNECT_S)
                continue
            try:
                await self.work(connection)
            except (ConnectionError, TimeoutError, AskAgain) as why:
                self.errand.note(f"starts over: {why or type(why).__name__}")
                self.interrupted()
            finally:
                connection.close()
            await self.errand.pause()

    def finished(self) -> bool:
        return self.errand.closing.is_set()

    async def work(self, connection: BrokerConnection) -> None:
        raise NotImplementedError

    def interrupted(self) -> None:
        """The connection is gone; nobody knows what became of the requests under way."""


def refuse(name: str, code: int, what: str) -> None:
    """Raises AskAgain for what a client retries, Violation for what should not happen to a correct client."""
    if code == ErrorCode.NONE:
        return
    error = ErrorCode(code)
    if error in RETRIABLE:
        raise AskAgain(error.name)
    raise Violation(f"J8 {name} was refused {what}: {error.name}")
