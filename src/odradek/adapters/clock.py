"""The machine's clocks."""

from __future__ import annotations

import time


class SystemClock:
    __slots__ = ()

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    # Without a call in between: each read of a connection calls it.
    monotonic_ns = staticmethod(time.monotonic_ns)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
