"""Both event loops: what works on one must work on the other."""

from __future__ import annotations

import asyncio

import pytest
import uvloop


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    """Runs one coroutine to its end, within ten seconds."""

    def run_within_limit(work):
        async def limited():
            async with asyncio.timeout(10):
                return await work

        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(limited())

    return run_within_limit
