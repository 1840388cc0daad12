"""Pauses whose length may change while they last, since a configuration does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.base.ports import Clock


class Pauses:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reconsidered = asyncio.Event()

    async def last(self, length_ms: Callable[[], int]) -> None:
        began_ms = self._clock.monotonic_ms()
        while (left_ms := began_ms + length_ms() - self._clock.monotonic_ms()) > 0:
            try:
                async with asyncio.timeout(left_ms / 1000):
                    await self._reconsidered.wait()
            except TimeoutError:
                return

    def reconsider(self) -> None:
        """Every pause under way computes its length again."""
        self._reconsidered.set()
        self._reconsidered = asyncio.Event()
