"""A spawner whose slow calls wait for the test."""

from __future__ import annotations

import asyncio


class HeldSpawner:
    """Each slow call waits until the test sets its gate, in any order."""

    def __init__(self, spawner) -> None:
        self._spawner = spawner
        self.held: asyncio.Queue = asyncio.Queue()

    def spawn(self, name, work):
        return self._spawner.spawn(name, work)

    async def blocking(self, call, *args):
        gate = asyncio.Event()
        self.held.put_nowait(gate)
        await gate.wait()
        return call(*args)
