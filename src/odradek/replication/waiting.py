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

    __slots__ = ("_arrivals", "_waiting", "waits")

    def __init__(self) -> None:
        # A heap, by offset and arrival. Each append looks whether it is empty.
        self.waits: list[tuple[int, int, Callback]] = []
        self._arrivals = 0
        # By callback: its arrival. Those that are forgotten stay in the heap until they are half of it: a request may
        # have tens of thousands, and a search for each would take minutes.
        self._waiting: dict[int, int] = {}

    def add(self, offset: int, callback: Callback) -> None:
        self._arrivals += 1
        self._waiting[id(callback)] = self._arrivals
        heappush(self.waits, (offset, self._arrivals, callback))

    def passed(self, end_offset: int) -> None:
        """Everything below `end_offset` is done: call back in offset order."""
        heap = self.waits
        while heap and heap[0][0] < end_offset:
            self._call_first(ErrorCode.NONE)

    def forget(self, callback: Callback) -> None:
        if self._waiting.pop(id(callback), None) is not None and len(self.waits) > 2 * len(self._waiting):
            # In place: a callback that `passed` calls may call this.
            self.waits[:] = [wait for wait in self.waits if self._waits(wait[1], wait[2])]
            heapify(self.waits)

    def fail(self, code: ErrorCode) -> None:
        while self.waits:
            self._call_first(code)

    def _call_first(self, code: ErrorCode) -> None:
        _, arrival, callback = heappop(self.waits)
        if self._waits(arrival, callback):
            del self._waiting[id(callback)]
            callback(code)

    def _waits(self, arrival: int, callback: Callback) -> bool:
        return self._waiting.get(id(callback)) == arrival
