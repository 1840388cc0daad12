"""Runs a coroutine on each event loop that a node may use: it must work on all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
import uvloop

R = TypeVar("R")
WITHIN_S = 60
"""Long enough for a busy machine."""


def run_within_limit(
    work: Awaitable[R], loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
) -> R:
    async def limited() -> R:
        async with asyncio.timeout(WITHIN_S):
            return await work

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(limited())


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[R]], R]:
    return lambda work: run_within_limit(work, request.param)
