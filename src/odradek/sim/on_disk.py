"""What a data directory holds, read from outside: the checkers' own eyes, independent of the log's code."""

from __future__ import annotations

from dataclasses import dataclass, field

from odradek.sim.records import SeenBatch, whole_batches


@dataclass(slots=True)
class StoredLog:
    """The batches of one partition up to the first offset that is missing."""

    start: int
    end: int
    batches: list[SeenBatch] = field(default_factory=list)

    def crc_by_offset(self) -> dict[int, int]:
        return {batch.base_offset: batch.crc for batch in self.batches}


def stored_logs(files: dict[str, bytes]) -> dict[str, StoredLog]:
    """By directory name, `orders-0`. Deleted, moved and foreign directories are left out."""
    logs: dict[str, StoredLog] = {}
    for path in sorted(files):
        directory, _, name = path.rpartition("/")
        if not name.endswith(".log") or "/" in directory or "." in directory:
            continue
        first = int(name.removesuffix(".log"))
        log = logs.setdefault(directory, StoredLog(first, first))
        for batch in whole_batches(files[path]):
            if batch.base_offset != log.end:
                break
            log.batches.append(batch)
            log.end = batch.last_offset + 1
    return logs


def checkpointed(files: dict[str, bytes], name: str) -> dict[str, int]:
    """The offsets in a checkpoint of the data directory, by log: after two lines, `topic partition offset` each."""
    lines = files.get(name, b"").decode().splitlines()[2:]
    entries = [line.split(" ") for line in lines]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in entries}
