"""When something in a cluster is wrong: the rules of `odradek cluster health` and of the console's verdict.

Each has its own words. The console also knows groups, and which problem is the cause of another one.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

from odradek.base.limits import MIB

# A voter whose last fetch is older than this does not follow.
SILENT_MS = 10_000
DISK_WARN_SHARE, DISK_BAD_SHARE = 0.85, 0.95
# Below this, a broker cannot even roll a segment.
DISK_FULL_BYTES = 64 * MIB


class Disk(IntEnum):
    GOOD = 0
    FILLING = 1
    ALMOST_FULL = 2
    # From here on it takes no more records.
    FULL = 3
    FAILED = 4


def follows(silent_ms: int | None) -> bool:
    """Whether a voter follows the metadata log. None: it has never fetched from this leader."""
    return silent_ms is not None and silent_ms <= SILENT_MS


def majority(voters: int) -> int:
    return voters // 2 + 1


def refuses_acks_all(in_sync: int, replicas: int, min_in_sync: int | None) -> bool:
    """A topic cannot need more replicas than it has. None: min.insync.replicas is unknown."""
    return min_in_sync is not None and in_sync < min(min_in_sync, replicas)


def disk(*, error: str | None, failed: Collection[str], total: int | None, usable: int | None) -> Disk:
    """`error` is that of the directory, `failed` are its logs that went offline."""
    if usable is not None and usable < DISK_FULL_BYTES:
        return Disk.FULL
    if error is not None or failed:
        return Disk.FAILED
    used = used_share(total, usable)
    if used is None or used < DISK_WARN_SHARE:
        return Disk.GOOD
    return Disk.ALMOST_FULL if used >= DISK_BAD_SHARE else Disk.FILLING


def used_share(total: int | None, usable: int | None) -> float | None:
    return None if not total or usable is None else 1 - usable / total
