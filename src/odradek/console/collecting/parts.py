"""What single pages need beyond the snapshot, such as connectors: read on threads of their own, at their own pace.

A part that is slow or fails keeps its last value, and never delays the snapshot.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from odradek.console.collecting.snapshot import Event, Snapshot
from odradek.console.finding import Finding

logger = logging.getLogger(__name__)

THREADS_MAX = 4


def no_findings(_value: object) -> Iterable[Finding]:
    return ()


def no_events(_before: object, _now: object) -> Iterable[Event]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`read` gets the last snapshot and may block; it returns None where the cluster has no such thing.

    `findings` are the problems in a value; `events` is what happened from one value to the next.
    """

    name: str
    every_s: float
    read: Callable[[Snapshot], object | None]
    findings: Callable[[object], Iterable[Finding]] = no_findings
    events: Callable[[object, object], Iterable[Event]] = no_events


class Parts:
    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._values: dict[str, object] = {}
        self._running: dict[str, Future[object | None]] = {}
        self._due_s: dict[str, float] = {}
        self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="odradek-console-part")

    def add(self, parts: Iterable[Part]) -> None:
        self._parts += parts

    def turn(self, snapshot: Snapshot) -> tuple[dict[str, object], Sequence[Finding], Sequence[Event]]:
        """Takes what is done, starts what is due. Returns all values, their findings, and new events."""
        events: list[Event] = []
        for part in self._parts:
            events += self._taken(part)
            if part.name not in self._running and time.monotonic() >= self._due_s.get(part.name, 0.0):
                self._due_s[part.name] = time.monotonic() + part.every_s
                self._running[part.name] = self._pool.submit(part.read, snapshot)
        found = [
            each for part in self._parts if part.name in self._values for each in part.findings(self._values[part.name])
        ]
        return dict(self._values), found, events

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _taken(self, part: Part) -> Iterable[Event]:
        running = self._running.get(part.name)
        if running is None or not running.done():
            return ()
        del self._running[part.name]
        problem = running.exception()
        if problem is not None:
            logger.warning("cannot read %s, retrying: %s", part.name, problem)
            return ()
        before, now = self._values.pop(part.name, None), running.result()
        if now is None:
            return ()
        self._values[part.name] = now
        return () if before is None else list(part.events(before, now))
