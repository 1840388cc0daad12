"""Which process of this host has a transactional id, and where it takes records for it.

A transactional id has one producer at a time: the next one fences it. Spark runs the tasks of a sink in any of its
Python workers. So the worker that initialized an id keeps its producer, and takes records from the others through a
Unix socket (`writer_door.py`). Across hosts there is no claim: there the broker fences the older producer.
"""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex


@dataclass(frozen=True, slots=True)
class Claim:
    token: str
    door: str  # the path of the owner's socket


def claim(key: str, door: str) -> Claim:
    """Ends the claim of the process that had the key before."""
    made = Claim(token_hex(8), door)
    path = _path(key)
    written = path.with_name(f"{path.name}.{made.token}")
    written.write_text(f"{made.token} {made.door}")
    written.replace(path)
    return made


def claim_on(key: str) -> Claim | None:
    try:
        token, _, door = _path(key).read_text().partition(" ")
    except FileNotFoundError:
        return None
    return Claim(token, door)


def private_folder() -> Path:
    """A directory that no other user can write to: records and positions of sinks pass through it."""
    folder = Path(tempfile.gettempdir()) / f"odradek-sinks-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} must be a directory that only this user can access. Remove it")
    return folder


def _path(key: str) -> Path:
    return private_folder() / sha256(key.encode()).hexdigest()[:32]
