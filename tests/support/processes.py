"""Processes that are not ours to wait for."""

from __future__ import annotations

from pathlib import Path


def runs(pid: int) -> bool:
    """Neither gone nor only waiting to be reaped, which may happen while we look."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")
