"""Files that are whole after a crash of the machine."""

from __future__ import annotations

import os
from pathlib import Path

# The end of the name of a file that replaces another one. No topic and no query has such a name.
ASIDE = "@new"


def sync(path: Path | str) -> None:
    """Makes the content of a file durable, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_durably(path: Path, data: bytes) -> None:
    """Readers see the old content or the new content, after a power loss, too."""
    aside = path.with_name(f"{path.name}{ASIDE}")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync(path.parent)
