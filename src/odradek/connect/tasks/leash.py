"""The connection from a running task to the service that started it: reports go up, orders and the lease come down.

A task writes only while it holds a lease, which the service renews every half second. A service that was killed,
paused or replaced renews nothing, so its tasks stop by themselves.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

LEASE_S = 2.5
CONNECT_S = 10.0
LINE_BYTES_MAX = 1 << 20


class LeaseLost(Exception):
    """The service has not renewed the lease of this task, or is gone: the task may not write any more."""


class Leash:
    """Use it in a `with` block. A thread reads what the service says."""

    def __init__(
        self, driver: tuple[str, int], token: str, run: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._stop_for: str | None = None
        self._leased = threading.Event()
        self._ending = threading.Event()
        self._sending = threading.Lock()
        self._held_until_s = 0.0
        self._socket = socket.create_connection(driver, CONNECT_S)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.report({"token": token, "run": run})
        self._thread = threading.Thread(target=self._listen, name=f"leash-{run}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._leased.wait(CONNECT_S)
        return self

    def __exit__(self, *_: object) -> None:
        # Not only closed: the listening thread holds the socket too, and would keep it open.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    @property
    def stop_for(self) -> str | None:
        """Why this task should end, if it should."""
        return self._stop_for

    def check(self) -> None:
        """Raises LeaseLost. Call it right before a write."""
        if self._clock() > self._held_until_s:
            raise LeaseLost("the connect service does not renew this task's lease; it was stopped, paused or replaced")

    def rest(self, seconds: float) -> None:
        """Waits, but not longer than until the task should end."""
        self._ending.wait(seconds)

    def report(self, facts: Mapping[str, object]) -> None:
        line = json.dumps(facts, default=str).encode() + b"\n"
        try:
            with self._sending:
                self._socket.sendall(line)
        except OSError:
            self._end("the connection to the connect service broke")

    def _listen(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                while line := lines.readline(LINE_BYTES_MAX):
                    self._obey(json.loads(line))
        except (OSError, ValueError):
            pass
        self._held_until_s = 0.0
        self._end("the connect service is gone")

    def _obey(self, order: Mapping[str, object]) -> None:
        if "stop" in order:
            self._end(str(order["stop"]))
        elif "lease" in order:
            self._held_until_s = self._clock() + LEASE_S
            self._leased.set()

    def _end(self, why: str) -> None:
        self._stop_for = self._stop_for or why
        self._ending.set()
        self._leased.set()
