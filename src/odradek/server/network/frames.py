"""Buffers for requests that do not fit into one read.

Pooled, because a fresh megabyte is faulted in page by page each time. A frame longer than the largest pooled size
grows as its bytes arrive: a large request takes memory only as it is sent. Incomplete requests share one budget. A
request that would exceed it is refused, so that many senders of large requests cannot take all memory.
"""

from __future__ import annotations

from odradek.base.limits import KIB, MIB

# Size of a buffer and how many of it are kept: a one-megabyte batch with its request around it fits the largest.
POOLED: tuple[tuple[int, int], ...] = ((64 * KIB, 64), (256 * KIB, 16), (MIB + 64 * KIB, 16))
LARGEST_POOLED = POOLED[-1][0]


class FramePool:
    __slots__ = ("_bytes_max", "_free", "bytes_in_use")

    def __init__(self, bytes_max: int | None = None) -> None:
        """Without a budget, buffers need not be given back."""
        self._free: dict[int, list[bytearray]] = {size: [] for size, _ in POOLED}
        self._bytes_max = bytes_max
        self.bytes_in_use = 0

    def has_room(self, more: int) -> bool:
        return self._bytes_max is None or self.bytes_in_use + more <= self._bytes_max

    def take(self, length: int) -> bytearray:
        """Room for `length` bytes, or for the first `LARGEST_POOLED` of them."""
        size = next((size for size in self._free if length <= size), LARGEST_POOLED)
        free = self._free[size]
        self.bytes_in_use += size
        return free.pop() if free else bytearray(size)

    def take_larger(self, size: int) -> bytearray:
        self.bytes_in_use += size
        return bytearray(size)

    def give_back(self, buffer: bytearray) -> None:
        self.bytes_in_use -= len(buffer)
        for size, kept_max in POOLED:
            if len(buffer) == size and len(self._free[size]) < kept_max:
                self._free[size].append(buffer)
                return


class PartialFrame:
    """A request under way: `filled` of its `length` bytes have arrived."""

    __slots__ = ("_pool", "buffer", "filled", "length", "view")

    def __init__(self, pool: FramePool, length: int, start: memoryview) -> None:
        self._pool = pool
        self.length = length
        self.buffer = pool.take(length)
        self.view = memoryview(self.buffer)
        self.filled = len(start)
        self.view[: self.filled] = start

    def room(self) -> memoryview:
        """Where to read next; never past the frame's end, so that nothing has to be moved afterwards."""
        return self.view[self.filled : self.length]

    def has_room(self) -> bool:
        """Grows the buffer if needed. False: incomplete requests have used up the budget."""
        if self.filled < len(self.buffer):
            return True
        size = min(self.length, 2 * len(self.buffer))
        if not self._pool.has_room(size):
            return False
        self._grow(size)
        return True

    def release(self) -> None:
        self.view.release()
        self._pool.give_back(self.buffer)

    def _grow(self, size: int) -> None:
        larger = self._pool.take_larger(size)
        larger[: self.filled] = self.view
        self.release()
        self.buffer = larger
        self.view = memoryview(larger)
