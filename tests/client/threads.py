"""Waits for the end of clients that were not closed."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Coroutine

from support.waiting import wait_until

# Threads that were there before the test. Other tests in the same process may have left some.
earlier: set[threading.Thread] = set()


def threads_end(within_s: float = 60.0) -> None:
    def left() -> list[str]:
        new = set(threading.enumerate()) - earlier
        return [thread.name for thread in new if thread.name.startswith("odradek-")]

    wait_until(lambda: not left(), lambda: f"the end of {left()}", within_s=within_s)


def run_and_collect(story: Coroutine[object, object, None]) -> None:
    """Runs the coroutine, and collects objects that only the loop kept alive.

    A thread may still hold a client when the loop ends. It releases it before it ends itself.
    """
    asyncio.run(story)
    gc.collect()
    threads_end()
