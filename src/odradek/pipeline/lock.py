"""One process at a time runs an application or resets it: two would write the same checkpoints.

The lock is the kernel's and ends with the process that holds it, however that dies; the file says who it is.
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
            f"{layout.app} is run by {who} from {layout.folder}.\n"
            "Stop that first, or give this one a state directory of its own (--state-dir)."
        )


class AppLock:
    """Held from here until `release`."""

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
            with suppress(FileExistsError):  # also raised for a directory that was there and is gone again
                layout.folder.mkdir(parents=True)
            file = layout.lock.open("a+b")
        except FileNotFoundError:  # a reset took the directory away
            continue
        if not _taken(file):
            who = _named(file)
            file.close()
            raise AlreadyRunning(layout, who)
        if _is_still(file, layout.lock):
            return file
        file.close()


def _is_still(file: IO[bytes], path: Path) -> bool:
    """A reset may take the file away between its opening and its locking: then the lock is one that nobody sees."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _taken(file: IO[bytes]) -> bool:
    """Whoever asks for the holder has the lock for a moment, too."""
    for _ in range(ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(ATTEMPT_S)
        else:
            return True
    return False


def holder_of(layout: Layout) -> Holder | None:
    """Who runs the application now; None when nobody does."""
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
    except (ValueError, KeyError):  # between its opening and its writing
        return None
