"""The processes of the demo: started, watched, started again when they end, killed on request."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from odradek.demo.trucking.page_state import PartState

STOP_TIMEOUT_S = 20.0
RESTART_AFTER_S = 0.5
# A process that ends so often before it is alive will not get better.
HOPELESS_STARTS = 3


class PartFailed(Exception):
    """A part cannot be brought to life."""


class Part:
    """One process, in a session of its own: Ctrl-C reaches the demo alone, and a kill takes the children along."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        is_ready: Callable[[], bool],
        detail: Callable[[], str],
        usual_start_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._environment = {**(environment or {}), **os.environ}
        self._is_ready = is_ready
        self._detail = detail
        self._usual_start_s = usual_start_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self._ended_at: float | None = None
        self._alive = False
        self._was_alive = False
        self._failed_starts = 0
        self._stopping = False
        self.restarts = 0

    def start(self) -> None:
        with self._lock:
            self._start()

    def _start(self) -> None:
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603 (our own command line)
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started_at = time.monotonic()
        self._alive, self._ended_at = False, None

    @property
    def alive(self) -> bool:
        return self._alive

    def watch(self) -> None:
        """Notice that it became ready, or ended; an ended one is started again."""
        with self._lock:
            if self._process is None or self._stopping:
                return
            if self._process.poll() is None:
                if not self._alive and self._is_ready():
                    self._alive = self._was_alive = True
                    self._failed_starts = 0
                return
            if self._ended_at is None:
                self._note_end(self._process.returncode)
            elif time.monotonic() - self._ended_at >= RESTART_AFTER_S:
                self.restarts += 1
                self._start()

    def _note_end(self, returncode: int) -> None:
        self._failed_starts += not self._alive
        if self._failed_starts >= HOPELESS_STARTS:
            raise PartFailed(f"{self.name} ended with {returncode}:\n{self.last_words()}")
        self._sweep()
        self._alive, self._ended_at = False, time.monotonic()

    def kill(self) -> None:
        """As a machine that loses power: no goodbye. The watch starts it again."""
        with self._lock:
            self._sweep()

    def stop(self) -> int | None:
        with self._lock:
            self._stopping = True
            if self._process is None:
                return None
            if self._process.poll() is None:
                self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._sweep()
            self._alive = False
            return self._process.returncode

    def _sweep(self) -> None:
        """Nothing of its session is left behind, also when the first process ended alone."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def state(self) -> PartState:
        if self._process is None or self._stopping:
            return PartState(name=self.name, state="stopped" if self._stopping else "waiting", detail="", progress=0.0)
        if self._alive:
            return PartState(name=self.name, state="alive", detail=self._detail(), restarts=self.restarts)
        return PartState(
            name=self.name,
            state="restarting" if self._was_alive else "starting",
            detail=self._detail(),
            restarts=self.restarts,
            progress=min(0.95, (time.monotonic() - self.started_at) / self._usual_start_s),
        )

    def last_words(self) -> str:
        said = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(said.splitlines()[-25:])
