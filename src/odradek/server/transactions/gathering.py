"""One request at a time to each broker, with everything that has gathered for it meanwhile.

A broker answers the requests of a connection one after the other, and each of these waits for replication. Many small
ones would wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from odradek.base import limits
from odradek.base.ids import BrokerId
from odradek.base.ports import Spawner
from odradek.coordinator.ports import AskBroker
from odradek.protocol.schema import Message

T = TypeVar("T")


class Part(NamedTuple):
    """The answer to a gathered request, and where the answers to one caller's items begin in it."""

    answer: Message | None
    begin: int


class _Waiting(NamedTuple, Generic[T]):
    items: Sequence[T]
    answered: asyncio.Future[Part]


class Gathering(Generic[T]):
    def __init__(
        self,
        *,
        ask_broker: AskBroker,
        spawner: Spawner,
        request: Callable[[list[T]], Message],
        version: int,
        timeout_ms: int,
    ) -> None:
        """`request` makes one request of gathered items."""
        self._ask_broker = ask_broker
        self._spawner = spawner
        self._request = request
        self._version = version
        self._timeout_ms = timeout_ms
        # By broker to which a request is under way: what comes next.
        self._waiting: dict[BrokerId, list[_Waiting[T]]] = {}

    async def ask(self, broker_id: BrokerId, items: Sequence[T]) -> Part:
        """`answer` is None when none came, or when too much waits for this broker already."""
        waiting = self._waiting.get(broker_id)
        if waiting is not None and len(waiting) >= limits.peer_requests_max:
            return Part(None, 0)
        one: _Waiting[T] = _Waiting(items, asyncio.get_running_loop().create_future())
        if waiting is not None:
            waiting.append(one)
        else:
            self._waiting[broker_id] = [one]
            self._spawner.spawn(f"ask broker {broker_id}", self._ask_all(broker_id))
        return await one.answered

    async def _ask_all(self, broker_id: BrokerId) -> None:
        while waiting := self._waiting[broker_id]:
            self._waiting[broker_id] = []
            request = self._request([item for one in waiting for item in one.items])
            answer = await self._ask_broker(broker_id, request, self._version, self._timeout_ms)
            begin = 0
            for one in waiting:
                if not one.answered.done():
                    one.answered.set_result(Part(answer, begin))
                begin += len(one.items)
        del self._waiting[broker_id]
