"""A thread that pushes snapshots to one collector, and waits longer and longer while the collector does not answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from odradek.monitor.registry import Snapshot

logger = logging.getLogger(__name__)

BACKOFF_MAX_S = 60.0
# A last push when the process stops must not delay its end for longer.
LAST_PUSH_S = 2.0


class PushFailed(Exception):
    """The collector did not take a push."""


class Collector(Protocol):
    def push(self, snapshot: Snapshot) -> None:
        """Raises PushFailed."""

    def close(self) -> None: ...


# Gives a snapshot for the time of one push, on the pusher's thread. Raises TimeoutError while the process is busy.
SnapshotOf = Callable[[], AbstractContextManager[Snapshot]]


class Pusher:
    def __init__(self, collector: Collector, address: str, snapshot: SnapshotOf, every_s: float) -> None:
        self._collector = collector
        self._address = address
        self._snapshot = snapshot
        self._every_s = every_s
        self._stopping = threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="odradek-push", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Pushes once more if the collector answered the last time."""
        self._stopping.set()
        self._thread.join(LAST_PUSH_S)

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s()):
            self._push()
        if not self._failures:
            self._push()
        self._collector.close()

    def _pause_s(self) -> float:
        doubled: float = self._every_s * 2 ** min(self._failures, 10)
        return min(doubled, max(BACKOFF_MAX_S, self._every_s))

    def _push(self) -> None:
        try:
            with self._snapshot() as snapshot:
                self._collector.push(snapshot)
        except (PushFailed, TimeoutError) as failed:
            if not self._failures:
                logger.warning("metrics are not pushed to %s: %s. Retrying at longer intervals", self._address, failed)
            self._failures += 1
        else:
            if self._failures:
                logger.warning("metrics are pushed to %s again", self._address)
            self._failures = 0
