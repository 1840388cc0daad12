"""Handles Ctrl-C and SIGTERM for an application in the foreground, from the beginning of its start."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Self


class Signals:
    """The first signal requests a stop and calls `answer` at once; a second signal ends the process.

    Neither raises an exception in running code.
    """

    def __init__(self, answer: Callable[[], None]) -> None:
        self.stop = threading.Event()
        self._answer = answer
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def take(self) -> None:
        """Install the handlers. Call again after a session was created: it sets a handler that interrupts JVM calls."""
        for number in self._before:
            signal.signal(number, signal.SIG_DFL if self.stop.is_set() else self._ask)

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.stop.set()
        self.take()
        self._answer()
