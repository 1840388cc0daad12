"""A lock so that one process at a time runs or resets an application: two would write the same checkpoints.

It is a kernel lock, so it ends with its process, however that dies. The lock file names the process.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from odradek.pipeline.errors import StreamsError
from odradek.pipeline.layout import Layout

ATTEMPTS = 4
ATTEMPT_S = 0.05


@dataclass(frozen=True, slots=True)
class Holder:
    pid: int
    host: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class AlreadyRunning(StreamsError):
    def __init__(self, layout: Layout, holder: Holder | None) -> None:
        self.holder = holder
        who = holder or "another process"
        super().__init__(
            f"{layout.app} is already running: {who}, state in {layout.folder}.\n"
            "Stop it first, or use another state directory (--state-dir)."
        )


class AppLock:
    """Held from its creation until `release`."""

    def __init__(self, layout: Layout) -> None:
        file = _locked(layout)
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
        file.flush()
        self._file = file

    def release(self) -> None:
        self._file.close()


def _locked(layout: Layout) -> IO[bytes]:
    while True:
        try:
            with suppress(FileExistsError):  # also raised for a directory that was deleted meanwhile
                layout.folder.mkdir(parents=True)
            file = layout.lock.open("a+b")
        except FileNotFoundError:  # a reset deleted the directory
            continue
        if not _taken(file):
            who = _named(file)
            file.close()
            raise AlreadyRunning(layout, who)
        if _is_still(file, layout.lock):
            return file
        file.close()


def _is_still(file: IO[bytes], path: Path) -> bool:
    """False if a reset deleted the file after it was opened: a lock on a deleted file stops no other process."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _taken(file: IO[bytes]) -> bool:
    """Take the lock. Retries, because `holder_of` in another process also holds it briefly."""
    for _ in range(ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(ATTEMPT_S)
        else:
            return True
    return False


def holder_of(layout: Layout) -> Holder | None:
    """The process that runs the application now; None when it is not running."""
    try:
        file = layout.lock.open("rb")
    except FileNotFoundError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _named(file) or Holder(0, "an unknown machine")
    return None


def _named(file: IO[bytes]) -> Holder | None:
    file.seek(0)
    try:
        who = json.loads(file.read())
        return Holder(who["pid"], who["host"])
    except (ValueError, KeyError):  # locked, but not yet written
        return None
