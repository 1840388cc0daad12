"""Buffers for requests that do not fit into one read.

Pooled, because a fresh megabyte is faulted in page by page each time. A frame longer than the largest pooled size
grows as its bytes arrive: announcing a large request costs its sender, not us.
"""

from __future__ import annotations

from odradek.base.limits import KIB, MIB

# Size of a buffer and how many of it are kept: a one-megabyte batch with its request around it fits the largest.
POOLED: tuple[tuple[int, int], ...] = ((64 * KIB, 64), (256 * KIB, 16), (MIB + 64 * KIB, 16))
LARGEST_POOLED = POOLED[-1][0]


class FramePool:
    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: dict[int, list[bytearray]] = {size: [] for size, _ in POOLED}

    def take(self, length: int) -> bytearray:
        """Room for `length` bytes, or for the first `LARGEST_POOLED` of them."""
        for size, free in self._free.items():
            if length <= size:
                return free.pop() if free else bytearray(size)
        return self._free[LARGEST_POOLED].pop() if self._free[LARGEST_POOLED] else bytearray(LARGEST_POOLED)

    def give_back(self, buffer: bytearray) -> None:
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
        if self.filled == len(self.buffer):
            self._grow()
        return self.view[self.filled : self.length]

    def release(self) -> None:
        self.view.release()
        self._pool.give_back(self.buffer)

    def _grow(self) -> None:
        larger = bytearray(min(self.length, 2 * len(self.buffer)))
        larger[: self.filled] = self.view
        self.release()
        self.buffer = larger
        self.view = memoryview(larger)
