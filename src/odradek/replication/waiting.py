"""Requests that wait for a partition: produce replies for a commit, fetches for more records."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol

from odradek.base.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.replication.partition import Partition

Callback = Callable[[ErrorCode], None]


class Reader(Protocol):
    """A fetch that waits for more records. It is called during an append and may only set a flag."""

    def may_read_more(self, partition: Partition) -> None: ...


class OffsetWaits:
    """Callbacks, each called when a partition has passed an offset."""

    __slots__ = ("_arrivals", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callback]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, offset: int, callback: Callback) -> None:
        self._arrivals += 1
        heappush(self._heap, (offset, self._arrivals, callback))

    def passed(self, end_offset: int) -> None:
        """Everything below `end_offset` is done: call back in offset order."""
        heap = self._heap
        while heap and heap[0][0] < end_offset:
            heappop(heap)[2](ErrorCode.NONE)

    def forget(self, callback: Callback) -> None:
        # In place: a callback that `passed` calls may call this.
        self._heap[:] = [wait for wait in self._heap if wait[2] is not callback]
        heapify(self._heap)

    def fail(self, code: ErrorCode) -> None:
        while self._heap:
            heappop(self._heap)[2](code)
