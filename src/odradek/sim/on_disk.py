"""What a data directory holds, read by the checkers' own code, independent of the log's code."""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.sim.keyed import is_compacted
from odradek.sim.records import SeenBatch, whole_batches


@dataclass(slots=True)
class StoredLog:
    """The batches of one partition up to the first offset that is missing; of a compacted one, all."""

    start: int
    end: int
    batches: list[SeenBatch] = field(default_factory=list)
    sparse: bool = False  # compaction left gaps

    def crc_by_offset(self) -> dict[int, int]:
        return {batch.base_offset: batch.crc for batch in self.batches}

    def content(self) -> dict[int, bytes]:
        return {offset: told for batch in self.batches for offset, told in batch.records()}


def stored_logs(files: dict[str, bytes]) -> dict[str, StoredLog]:
    """By directory name, `orders-0`. Deleted, moved and foreign directories are left out."""
    segments: dict[str, dict[int, bytes]] = {}
    for path in sorted(files):
        directory, _, name = path.rpartition("/")
        # A segment that is about to replace another one counts once the other is gone.
        base, suffix, rest = name.partition(".log")
        if suffix and rest in ("", ".swap") and "/" not in directory and "." not in directory:
            segments.setdefault(directory, {}).setdefault(int(base), files[path])
    starts = checkpointed(files, "log-start-offset-checkpoint")
    return {
        directory: _stored_log(by_base, _from(list(by_base), starts.get(directory, 0)), sparse=is_compacted(directory))
        for directory, by_base in segments.items()
    }


def _from(bases: list[int], log_start: int) -> list[int]:
    """Without the segments that end at the log start or before: they are being removed, in any order."""
    return bases[max(0, sum(base <= log_start for base in bases) - 1) :]


def _stored_log(segments: dict[int, bytes], bases: list[int], *, sparse: bool) -> StoredLog:
    log = StoredLog(bases[0], bases[0], sparse=sparse)
    for base in bases:
        for batch in whole_batches(segments[base]):
            if sparse and batch.base_offset < log.end:
                continue  # of a segment whose successor is there already
            if batch.base_offset != log.end and not sparse:
                break
            log.batches.append(batch)
            log.end = batch.last_offset + 1
    return log


def checkpointed(files: dict[str, bytes], name: str) -> dict[str, int]:
    """The offsets in a checkpoint of the data directory, by log: after two lines, `topic partition offset` each."""
    lines = files.get(name, b"").decode().splitlines()[2:]
    entries = [line.split(" ") for line in lines]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in entries}
