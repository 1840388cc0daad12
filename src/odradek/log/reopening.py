"""Reopening a failed log in the same process once its disk works again.

After a failed fsync the kernel may mark pages as clean that never reached the disk. Then the next fsync succeeds
without writing them. So all files that may not be durable are first rewritten in place with the same bytes, and synced.
Then the log is recovered as after a crash. A new `Log` replaces the failed one, which stays offline.
"""

from __future__ import annotations

from itertools import pairwise

from odradek.base.limits import MIB
from odradek.base.ports import Disk, File
from odradek.log.folder import CLEANED, LOG, SEGMENT_SUFFIXES, Folder, offset_name, offsets_by_suffix, write_whole
from odradek.log.log import Log
from odradek.log.recovery import LogOpening, open_log

PROBE = "storage-probe"
PROBE_BYTES = MIB
CHUNK_BYTES = MIB


def probe(disk: Disk) -> None:
    """Slow. Raises OSError while nothing can be written durably here."""
    disk.replace(PROBE, bytes(PROBE_BYTES))
    disk.remove(PROBE)


def reopen(disk: Disk, failed: Log, opening: LogOpening) -> Log:
    """Slow. Meanwhile the event loop may only read from the failed log."""
    write_again(Folder(disk, failed.directory), failed.recovery_point)
    return open_log(disk, opening)


def write_again(folder: Folder, recovery_point: int) -> None:
    names = folder.names()
    durable = _durable_names(names, recovery_point)
    for name in names:
        # Files of an unfinished compaction are not needed: recovery deletes them.
        if name not in durable and not name.endswith(CLEANED):
            file = folder.open(name)
            try:
                _write_again(file)
            finally:
                file.close()
    folder.disk.sync_dir(folder.path)
    folder.disk.sync_dir("")


def _durable_names(names: list[str], recovery_point: int) -> dict[str, None]:
    """Segments that end before the recovery point, except the last of them: its indexes may not be durable."""
    bases = offsets_by_suffix(names).get(LOG, [])
    below = [base for base, end in pairwise(bases) if end <= recovery_point]
    return {offset_name(base, suffix): None for base in below[:-1] for suffix in SEGMENT_SUFFIXES}


def _write_again(file: File) -> None:
    size = file.size()
    for position in range(0, size, CHUNK_BYTES):
        write_whole(file, file.pread(CHUNK_BYTES, position), position)
    # An earlier truncation may not be durable either.
    file.truncate(size)
    file.sync()
