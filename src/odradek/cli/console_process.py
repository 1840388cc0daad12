"""The console that `odradek up` starts: a process of its own, which ends with the broker and cannot harm it."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

import click

# The console must not take the CPU from a broker that has just started.
NICE = 10
STOP_S = 3.0


class ConsoleProcess:
    """Does nothing until `start`. The pipe to its stdin tells it that this process is gone, even after kill -9."""

    def __init__(self, *, wanted: bool, port: int | None, log_format: str) -> None:
        self._wanted = wanted
        self._port = port
        self._log_format = log_format
        self._process: subprocess.Popen[bytes] | None = None
        self._starting: threading.Thread | None = None

    def start(self, bootstrap: str) -> None:
        """Returns at once: starting a process would hold the event loop of the broker for some milliseconds."""
        if self._wanted and self._starting is None:
            self._starting = threading.Thread(target=self._spawn, args=[bootstrap], daemon=True)
            self._starting.start()

    def _spawn(self, bootstrap: str) -> None:
        command = [sys.executable, "-m", "odradek.cli", "console", "-b", bootstrap, "--log-format", self._log_format]
        command += ["--until-stdin-ends", "--nice", str(NICE)]
        command += ["--or-any-port"] if self._port is None else ["--port", str(self._port)]
        try:
            # Ctrl-C at the terminal must reach only this process, which ends the console.
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
        except OSError as refused:
            click.echo(f"The console did not start: {refused}", err=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._starting is not None:
            self._starting.join()
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
