"""Snapshots of a node's metrics: collected on its event loop, used on other threads, and no burden for the loop.

A garbage collection stops all threads. With thousands of partitions it takes tens of milliseconds, and the readings of
a snapshot, which are many and new, would cause one. So none runs while there is a snapshot. To free a large snapshot
at once would hold the interpreter lock for milliseconds: it is freed in slices, too.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from odradek.base.limits import metric_readings_per_slice_max
from odradek.base.steps import Steps, in_slices
from odradek.monitor.registry import Registry, Snapshot

T = TypeVar("T")

# Requests of clients go on between two slices.
SLICE_PAUSE_S = 0.001
# An event loop that does not answer a pusher for this long is stuck; the push is left out.
ANSWERS_WITHIN_S = 5.0
# For a request, with the wait for other requests. Prometheus gives up after ten seconds, and would not see the reason.
REQUEST_WITHIN_S = 8.0


class Snapshots:
    """`loop`: that of the node, which owns what is read."""

    def __init__(self, registry: Registry, loop: asyncio.AbstractEventLoop) -> None:
        self._registry = registry
        self._loop = loop
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def for_request(self) -> AsyncIterator[Snapshot]:
        """On the event loop of the HTTP server; one at a time, which bounds the memory. Raises TimeoutError."""
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(REQUEST_WITHIN_S):
                    await held.enter_async_context(self._turn)
                    # A stuck loop shows here, where garbage is still collected.
                    await asyncio.wrap_future(self._asked(asyncio.sleep(0)))
                    held.enter_context(collection_paused())
                    snapshot = await asyncio.wrap_future(self._asked(self._collected()))
            except TimeoutError:
                raise TimeoutError(_late(REQUEST_WITHIN_S)) from None
            try:
                yield snapshot
            finally:
                await in_slices(_freed(snapshot), SLICE_PAUSE_S)

    @contextmanager
    def for_push(self) -> Iterator[Snapshot]:
        """On the thread of a pusher. Raises TimeoutError."""
        if self._loop.is_closed():
            raise TimeoutError("the node has stopped")
        _result(self._asked(asyncio.sleep(0)))
        with collection_paused():
            snapshot = _result(self._asked(self._collected()))
            try:
                yield snapshot
            finally:
                for _ in _freed(snapshot):
                    time.sleep(SLICE_PAUSE_S)

    def _asked(self, question: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(question, self._loop)

    async def _collected(self) -> Snapshot:
        return await in_slices(self._registry.collect(), SLICE_PAUSE_S)


def _result(asked: Future[T]) -> T:
    try:
        return asked.result(ANSWERS_WITHIN_S)
    except TimeoutError:
        asked.cancel()
        raise TimeoutError(_late(ANSWERS_WITHIN_S)) from None


def _late(within_s: float) -> str:
    return f"the event loop of this node gave no metrics within {within_s:.0f} s"


def _freed(snapshot: Snapshot) -> Steps[None]:
    while snapshot:
        del snapshot[-metric_readings_per_slice_max:]
        yield metric_readings_per_slice_max


class _Pauses:
    """How many snapshots there are in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def begin(self) -> None:
        with self._lock:
            self._count += 1
            gc.disable()

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                gc.enable()


_pauses = _Pauses()


@contextmanager
def collection_paused() -> Iterator[None]:
    """No garbage is collected in this process meanwhile. Nests, and works with several threads."""
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()
