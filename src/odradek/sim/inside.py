"""Checks inside the running node: what no client can see, and what must agree with the files on disk."""

from __future__ import annotations

from struct import Struct

from odradek.log.log import Log
from odradek.node.build import Node
from odradek.sim.history import Violation
from odradek.sim.on_disk import StoredLog
from odradek.sim.records import batch_at, whole_batches

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


def logs_of(node: Node) -> list[Log]:
    return [*node._logs.logs.values(), node._quorum.log]


def check_producers(log: Log, stored: StoredLog, wall_ms: int, *, safe: bool) -> None:
    """L4: the producer state of the log agrees with its batches.

    Compaction leaves only the last batch of a producer. Where that may be lost, only a snapshot remembers the batch
    before it.
    """
    last: dict[int, tuple[int, int, int]] = {}
    for batch in stored.batches:
        if batch.producer_id >= 0 and not batch.is_control:
            last[batch.producer_id] = (batch.producer_epoch, batch.last_sequence, batch.last_offset)
    for producer_id, producer in log.known_producers(wall_ms).by_id.items():
        if producer_id in last and producer.batches:
            newest = producer.batches[-1]
            known = (producer.epoch, newest.last_sequence, newest.last_offset)
            is_lost_from_disk = not safe and last[producer_id][2] < newest.last_offset < (log.cleaned_until or 0)
            if known != last[producer_id] and not is_lost_from_disk:
                raise Violation(f"L4 {log.name} remembers {known} of producer {producer_id}, not {last[producer_id]}")


def check_epochs(log: Log, stored: StoredLog) -> None:
    """L4: the leader epoch of each batch agrees with the epoch that the log has for its offset, if it has any.

    A crash may undo a deletion of records; then the log may lack the epochs of the records that are back.
    """
    entries = log.leader_epochs.entries()
    for batch in stored.batches:
        known = [epoch for epoch, start in entries if start <= batch.base_offset]
        if known and known[-1] != batch.leader_epoch:
            raise Violation(
                f"L4 {log.name}: {batch.base_offset} was written in epoch {batch.leader_epoch}, the log says {entries}"
            )


def check_indexes(files: dict[str, bytes]) -> None:
    """L4, after a clean stop: every index entry points at the batch it names; the last time entry is the latest."""
    for path, index in files.items():
        directory, _, name = path.rpartition("/")
        if "." in directory:
            continue
        stem, _, kind = name.rpartition(".")
        if kind == "index":
            _check_offset_index(path, index, int(stem), files[f"{directory}/{stem}.log"])
        elif kind == "timeindex":
            _check_time_index(path, index, int(stem), files[f"{directory}/{stem}.log"])


def _check_offset_index(path: str, index: bytes, base: int, log: bytes) -> None:
    last_position = -1
    for relative, position in _OFFSET_ENTRY.iter_unpack(index):
        batch = batch_at(log, position)
        if batch is None or batch.last_offset != base + relative or position <= last_position:
            raise Violation(f"L4 {path} says that {base + relative} ends a batch at {position}")
        last_position = position


def _check_time_index(path: str, index: bytes, base: int, log: bytes) -> None:
    times = {batch.last_offset: batch.max_timestamp for batch in whole_batches(log)}
    latest = -1
    for timestamp, relative in _TIME_ENTRY.iter_unpack(index):
        if timestamp < latest or times.get(base + relative) != timestamp:
            raise Violation(f"L4 {path} says that {base + relative} has time {timestamp}")
        latest = timestamp
    if latest != max(times.values(), default=-1):
        raise Violation(f"L4 {path} ends with {latest}, before the latest of its records")
