"""What a consumer does with a record that cannot be decoded: `on_bad=`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Literal

from odradek.client.configuring import client_logger
from odradek.client.records import BadRecord

OnBad = Literal["fail", "skip"] | Callable[[BadRecord], object]


class BadRecords:
    """`fail` raises the BadRecord, `skip` logs it, a function gets it, for example to write a dead letter."""

    def __init__(self, on_bad: OnBad, *, may_await: bool) -> None:
        if not callable(on_bad) and on_bad not in ("fail", "skip"):
            raise ValueError(f"on_bad={on_bad!r}: use 'fail', 'skip', or a function that takes the BadRecord")
        if inspect.iscoroutinefunction(on_bad) and not may_await:
            raise ValueError("on_bad is an async function: use AsyncConsumer, or a plain function")
        self._on_bad = on_bad
        # Records that were passed over, by `skip` or by the function.
        self.skipped = 0

    def meet(self, bad: BadRecord) -> object:
        """What the function returned: of an async one, what is to be awaited."""
        if callable(self._on_bad):
            outcome = self._on_bad(bad)
            self.skipped += 1
            return outcome
        if self._on_bad == "fail":
            raise bad
        self.skipped += 1
        client_logger().warning("skipped %s (%d skipped by this consumer)", bad, self.skipped)
        return None
