"""Waits for the end of clients that were not closed."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Coroutine


def threads_end(within_s: float = 10.0) -> None:
    patience = time.monotonic() + within_s
    while left := [thread.name for thread in threading.enumerate() if thread.name.startswith("odradek-")]:
        assert time.monotonic() < patience, f"{left} do not end"
        time.sleep(0.01)


def run_and_collect(story: Coroutine[object, object, None]) -> None:
    """Runs the coroutine, and collects objects that only the loop kept alive."""
    asyncio.run(story)
    gc.collect()
