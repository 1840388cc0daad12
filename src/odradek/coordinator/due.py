"""Which keys are due. A check looks only at keys that may be due: there may be millions of others."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Due(Generic[K]):
    """Unlike `Timers` it keeps no deadlines: they are in what the keys stand for, and change mostly to later ones."""

    __slots__ = ("_due_ms", "_heap", "_queued")

    def __init__(self, due_ms: Callable[[K], int | None]) -> None:
        """`due_ms`: when a key is due, None for never."""
        self._due_ms = due_ms
        # The time of the heap entry that stands for a key: not later than its key is due. Other entries are stale.
        self._queued: dict[K, int] = {}
        self._heap: list[tuple[int, K]] = []

    def put(self, key: K) -> None:
        """After each change that may make a key due, or due earlier."""
        at_ms = self._due_ms(key)
        if at_ms is None:
            return
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._queued[key] = at_ms
            heapq.heappush(self._heap, (at_ms, key))

    def may_have(self, now_ms: int) -> bool:
        """Whether `take` has something to look at."""
        return bool(self._heap) and self._heap[0][0] <= now_ms

    def take(self, now_ms: int, looks: int) -> list[K]:
        """The first keys that are due, after a look at no more than so many. The caller puts back keys that stay."""
        taken: list[K] = []
        while looks > 0 and self.may_have(now_ms):
            looks -= 1
            at_ms, key = heapq.heappop(self._heap)
            if self._queued.get(key) != at_ms:
                continue
            del self._queued[key]
            due_ms = self._due_ms(key)
            if due_ms is not None and due_ms <= now_ms:
                taken.append(key)
            else:
                self.put(key)
        return taken
