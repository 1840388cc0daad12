"""Deadlines by key, in one heap. Postponing a deadline, which every heartbeat does, costs two dictionary writes."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    __slots__ = ("_deadline", "_heap", "_queued", "_sequence")

    def __init__(self) -> None:
        self._deadline: dict[K, int] = {}
        # The time of the earliest heap entry that stands for a key; later entries of that key are stale.
        self._queued: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadline)

    def set(self, key: K, at_ms: int) -> None:
        self._deadline[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued:
            self._push(key, at_ms)

    def cancel(self, key: K) -> None:
        self._deadline.pop(key, None)

    def next_wakeup(self) -> int | None:
        """When to call `due`; may be earlier than the earliest deadline, never later."""
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int, at_most: int) -> list[K]:
        """The keys whose time has come, earliest first; they are no longer set."""
        fired: list[K] = []
        while self._heap and self._heap[0][0] <= now_ms and len(fired) < at_most:
            at_ms, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != at_ms:
                continue
            del self._queued[key]
            deadline = self._deadline.get(key)
            if deadline is None:
                continue
            if deadline > now_ms:
                self._push(key, deadline)
            else:
                del self._deadline[key]
                fired.append(key)
        return fired

    def _push(self, key: K, at_ms: int) -> None:
        self._queued[key] = at_ms
        # The sequence keeps equal deadlines in the order in which they were set.
        self._sequence += 1
        heapq.heappush(self._heap, (at_ms, self._sequence, key))
