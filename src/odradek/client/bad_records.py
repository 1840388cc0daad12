"""`on_bad=`: what a consumer does with a record that cannot be decoded."""

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
        self.are_raised = on_bad == "fail"
        # Records that were skipped, or passed to the function.
        self.skipped = 0

    def meet(self, bad: BadRecord) -> None:
        outcome = self._told(bad)
        if inspect.isawaitable(outcome):
            if inspect.iscoroutine(outcome):
                outcome.close()  # otherwise Python warns that it was never awaited
            raise TypeError("on_bad returned a coroutine: use AsyncConsumer, or a plain function")
        self.skipped += 1

    async def meet_async(self, bad: BadRecord) -> None:
        outcome = self._told(bad)
        if inspect.isawaitable(outcome):
            await outcome
        self.skipped += 1

    def _told(self, bad: BadRecord) -> object:
        if callable(self._on_bad):
            return self._on_bad(bad)
        client_logger().warning("skipped %s (%d skipped by this consumer)", bad, self.skipped + 1)
        return None
