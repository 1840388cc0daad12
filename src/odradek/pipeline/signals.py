"""Ctrl-C and SIGTERM of an application that runs in the foreground, from the first moment of its start on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Self


class Signals:
    """The first one asks and is answered at once; a second one ends the process. Nothing is interrupted by either."""

    def __init__(self, answer: Callable[[], None]) -> None:
        self.stop = threading.Event()
        self._answer = answer
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def take(self) -> None:
        """Also again after a session was made: it puts a handler in our place, which breaks into calls of the JVM."""
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
