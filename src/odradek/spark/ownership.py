"""Which worker process of this host initialized a transactional id last.

A worker keeps its transactional producers for later tasks. When another worker of the host has initialized the same
transactional id since, the broker has fenced the kept one. The worker must know before it reads the rows of a task,
because it can read them only once. Across hosts the broker alone says so: Spark retries such a task.
"""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from pathlib import Path
from secrets import token_hex


def claim(key: str) -> str:
    """Returns the token of this claim. It ends with the next claim of the key on this host."""
    token = token_hex(8)
    path = _path(key)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    written = path.with_name(f"{path.name}.{token}")
    written.write_text(token)
    written.replace(path)
    return token


def is_claimed_by(key: str, token: str) -> bool:
    try:
        return _path(key).read_text() == token
    except OSError:
        return False


def _path(key: str) -> Path:
    return Path(tempfile.gettempdir()) / f"odradek-sinks-{os.getuid()}" / sha256(key.encode()).hexdigest()[:32]
