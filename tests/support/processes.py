"""Processes that are not children of this process."""

from __future__ import annotations

from pathlib import Path


def runs(pid: int) -> bool:
    """Whether the process runs: it has not ended and is not a zombie. Both may change during the check."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")
