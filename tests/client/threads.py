"""Waits for the end of clients that were not closed."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Coroutine

from support.waiting import wait_until


def threads_end(within_s: float = 60.0) -> None:
    def left() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("odradek-")]

    wait_until(lambda: not left(), lambda: f"the end of {left()}", within_s=within_s)


def run_and_collect(story: Coroutine[object, object, None]) -> None:
    """Runs the coroutine, and collects objects that only the loop kept alive.

    A thread may still hold a client when the loop ends. It releases it before it ends itself.
    """
    asyncio.run(story)
    gc.collect()
    threads_end()
