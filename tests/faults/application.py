"""The application as a process: started, observed from outside, and killed in part or as a whole."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from faults import counting
from support.quick_java import QUICK_JAVA

EXECUTOR = "CoarseGrainedExecutorBackend"
KILL_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    command: str


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch that is planned but not done: Spark's log has its offsets and no commit."""

    query: str
    number: int
    opened: float  # seconds since 1970
    usual_s: float  # the duration of the previous batch
    writes: frozenset[str]  # topics

    @property
    def depth(self) -> float:
        """0 when it was planned, about 1 when it will be done."""
        return (time.time() - self.opened) / self.usual_s

    def __str__(self) -> str:
        return f"{self.query} {self.number}"


class Checkpoint:
    """The progress log of a query: offsets/N is written before batch N runs, commits/N after it."""

    def __init__(self, path: Path, writes: frozenset[str]) -> None:
        self._path = path
        self._writes = writes

    def open_batch(self) -> Batch | None:
        planned, done = self._newest("offsets"), self._newest("commits")
        if done < 0 or planned <= done:
            return None
        usual_s = self._written("commits", done) - self._written("offsets", done)
        return Batch(self._path.name, planned, self._written("offsets", planned), usual_s, self._writes)

    def has_done_batch_since(self, moment: float) -> bool:
        """Whether a batch that was planned after this moment is done."""
        done = self._newest("commits")
        return done >= 0 and self._written("offsets", done) > moment

    def _newest(self, log: str) -> int:
        names = os.listdir(self._path / log) if (self._path / log).exists() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _written(self, log: str, number: int) -> float:
        return (self._path / log / str(number)).stat().st_mtime


class Application:
    """The processes of a separate session: the driver, its JVM, two executors and the Python workers of all three."""

    def __init__(self, bootstrap: str, place: Path) -> None:
        self._log = place / "application.out"
        self._environment = (
            os.environ
            | QUICK_JAVA
            | {
                "ODRADEK_BOOTSTRAP": bootstrap,
                "ODRADEK_STREAMS_STATE_DIR": str(place / "state"),
            }
        )
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        state = place / "state" / counting.app.name
        self.checkpoints = [Checkpoint(state / query.name, query.writes) for query in counting.app.queries()]

    def start(self) -> None:
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, counting.__file__],
                env=self._environment,
                cwd=self._place,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def check(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"the application ended:\n{self.last_words()}"

    def last_words(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])

    def open_batches(self) -> list[Batch]:
        return [batch for checkpoint in self.checkpoints if (batch := checkpoint.open_batch())]

    def has_recovered_since(self, moment: float) -> bool:
        return all(checkpoint.has_done_batch_since(moment) for checkpoint in self.checkpoints)

    def executors(self) -> list[Process]:
        return sorted((process for process in self.processes() if EXECUTOR in process.command), key=lambda it: it.pid)

    def python_workers(self, executor: Process) -> list[Process]:
        """The Python processes of an executor: its daemon and the workers that the daemon forks."""
        all_of_it, found = self.processes(), [executor]
        for above in found:
            found += [process for process in all_of_it if process.parent == above.pid]
        return found[1:]

    def kill_the_rest(self) -> None:
        """Kill until no process is left, including processes that were just forked."""
        assert self._process is not None
        deadline = time.monotonic() + KILL_TIMEOUT_S
        while left := self.processes():
            kill(left)
            assert time.monotonic() < deadline, f"these processes do not end: {left}"
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(KILL_TIMEOUT_S)
        self.kill_the_rest()

    def processes(self) -> list[Process]:
        assert self._process is not None
        command = ["ps", "-A", "-ww", "-o", "sid=,stat=,pid=,ppid=,args="]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = [line.split(maxsplit=4) for line in listed.splitlines()]
        return [
            Process(int(pid), int(parent), args)
            for session, state, pid, parent, args in rows
            if int(session) == self._process.pid and not state.startswith("Z")
        ]


def kill(processes: Iterable[Process]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
