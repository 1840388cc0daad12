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

    __slots__ = ("_arrivals", "waits")

    def __init__(self) -> None:
        # A heap. Each append looks whether it is empty.
        self.waits: list[tuple[int, int, Callback]] = []
        self._arrivals = 0

    def add(self, offset: int, callback: Callback) -> None:
        self._arrivals += 1
        heappush(self.waits, (offset, self._arrivals, callback))

    def passed(self, end_offset: int) -> None:
        """Everything below `end_offset` is done: call back in offset order."""
        heap = self.waits
        while heap and heap[0][0] < end_offset:
            heappop(heap)[2](ErrorCode.NONE)

    def forget(self, callback: Callback) -> None:
        # In place: a callback that `passed` calls may call this.
        self.waits[:] = [wait for wait in self.waits if wait[2] is not callback]
        heapify(self.waits)

    def fail(self, code: ErrorCode) -> None:
        while self.waits:
            heappop(self.waits)[2](code)
