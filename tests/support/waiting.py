"""Waiting until something is true. Tests poll here and nowhere else, and never sleep for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Far more than any of these waits needs on a busy machine: it ends only tests that would wait for ever.
PATIENCE_S = 60.0
POLL_S = 0.02


def wait_until(
    condition: Callable[[], T], what: object = "it", *, within_s: float = PATIENCE_S, every_s: float = POLL_S
) -> T:
    """The first true result of `condition`. `what` is for the failure: a text, or a function that returns one."""
    deadline_s = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < deadline_s, _failure(what, result, within_s)
        time.sleep(every_s)
    return result


async def until(
    condition: Callable[[], T], what: object = "it", *, within_s: float = PATIENCE_S, every_s: float = POLL_S
) -> T:
    """Like `wait_until`, on an event loop, by the clock of the loop: a virtual clock does not wait."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while not (result := condition()):
        assert loop.time() < deadline_s, _failure(what, result, within_s)
        await asyncio.sleep(every_s)
    return result


async def let_others_run(turns: int = 100) -> None:
    """Gives other tasks turns of the event loop, before a check that something has not happened."""
    for _ in range(turns):
        await asyncio.sleep(0)


def _failure(what: object, result: object, within_s: float) -> str:
    return f"{what() if callable(what) else what}: not true after {within_s} s (last: {result!r})"
