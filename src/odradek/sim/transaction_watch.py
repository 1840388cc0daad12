"""Transactions in the logs of all nodes, by the checkers' own reading of the batches: T2 and T3, and L4 for indexes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct

from odradek.coordinator.transaction.shard import TransactionShard
from odradek.log.log import Log
from odradek.replication.partition import Partition
from odradek.sim.history import Violation
from odradek.sim.ledger import batches_between
from odradek.sim.loop import Host
from odradek.sim.on_disk import StoredLog
from odradek.sim.records import SeenBatch

_INDEX_ENTRY = Struct(">hqqqq")  # version, producer id, first offset, last offset, last stable offset

Aborted = tuple[int, int, int, int]
"""Producer id, first offset, offset of the marker, last stable offset after it."""


@dataclass(slots=True)
class TransactionsSeen:
    """What some batches, in order, say about transactions."""

    # The first offset seen of each open transaction, by producer id.
    open: dict[int, int] = field(default_factory=dict)
    # The same for batches that compaction has emptied. A replica that fetches one may not have the marker yet.
    emptied: dict[int, int] = field(default_factory=dict)
    aborted: list[Aborted] = field(default_factory=list)

    def take(self, batch: SeenBatch) -> None:
        if not batch.is_transactional:
            return
        if not batch.is_control:
            begun = self.emptied if batch.is_empty else self.open
            begun.setdefault(batch.producer_id, batch.base_offset)
            return
        committed = batch.commits()
        if committed is not None:
            self.emptied.pop(batch.producer_id, None)
        first = self.open.pop(batch.producer_id, None) if committed is not None else None
        if first is not None and not committed:
            stable = min([batch.last_offset + 1, *self.open.values()])
            self.aborted.append((batch.producer_id, first, batch.last_offset, stable))


def seen_in(batches: Iterable[SeenBatch]) -> TransactionsSeen:
    seen = TransactionsSeen()
    for batch in batches:
        seen.take(batch)
    return seen


class StableWatch:
    """T3: the last stable offset of a replica never passes a transaction that is open below its high watermark."""

    def __init__(self) -> None:
        # By replica: its log, how often it was truncated, how far it was read, and what was seen.
        self._read: dict[tuple[Host, bytes, int], tuple[Log, int, int, TransactionsSeen]] = {}

    def look(self, host: Host, partition: Partition) -> None:
        key, log, high = (host, partition.topic_id, partition.index), partition.log, partition.high_watermark
        known, history, position, seen = self._read.get(key, (log, -1, 0, TransactionsSeen()))
        if known is not log or history != log.durability.history or position > high:
            position, seen = log.log_start_offset, TransactionsSeen()
        with suppress(OSError):
            for batch in batches_between(log, max(position, log.log_start_offset), high):
                seen.take(batch)
                position = batch.last_offset + 1
            self._compare(host, partition, seen, position)
        self._read[key] = (log, log.durability.history, position, seen)

    def _compare(self, host: Host, partition: Partition, seen: TransactionsSeen, position: int) -> None:
        """`position`: the end of the last batch below the high watermark, which may be inside the next batch."""
        log, high = partition.log, partition.high_watermark
        stable, expected = partition.last_stable_offset, min([high, *seen.open.values()])
        if stable == expected or (stable < expected and log.log_start_offset > 0):
            return  # the beginning of a transaction may have been deleted
        if stable > expected and not self._is_decided_above(log, high, seen, stable):
            raise Violation(
                f"T3 {partition} of {host.name}: last stable offset {stable}, high watermark {high}, but transactions "
                f"are open: {seen.open} (producer id, first offset)"
            )
        held_back = self._is_held_back(log, seen, stable) or self._is_compacted_below_its_marker(log, high, stable)
        if stable < min(position, expected, *seen.emptied.values()) and not held_back:
            raise Violation(
                f"T3 {partition} of {host.name}: last stable offset {stable}, but nothing is open below {expected}"
            )

    def _is_held_back(self, log: Log, seen: TransactionsSeen, stable: int) -> bool:
        """A log that went offline before an aborted transaction was indexed shows readers nothing from there on."""
        return log.offline is not None and stable in {first for _, first, _, _ in seen.aborted}

    def _is_compacted_below_its_marker(self, log: Log, high: int, stable: int) -> bool:
        """Compaction used a marker that was committed. Then a restart took an older high watermark, below the marker.

        The log remembers the transaction from its snapshot, though its records are gone.
        """
        if log.cleaned_until is None or stable >= log.cleaned_until:
            return False
        return any(batch.is_control for batch in batches_between(log, high, log.log_end_offset))

    def _is_decided_above(self, log: Log, high: int, seen: TransactionsSeen, stable: int) -> bool:
        """A restart forgets which markers were not committed. Their decision is final all the same."""
        held = {producer_id for producer_id, first in seen.open.items() if first < stable}
        ended = {batch.producer_id for batch in batches_between(log, high, log.log_end_offset) if batch.is_control}
        return held <= ended


def check_ended(shards: Iterable[TransactionShard], leaders: Iterable[Partition], wall_ms: int) -> None:
    """T1: a transaction that is stored as complete has its marker in every partition.

    A coordinator that was deposed and does not know it yet only knows less: what it wrote since is not committed.
    `leaders`: with the newest leader epochs, so they have everything that was committed.
    """
    unended: dict[int, list[tuple[int, Partition]]] = {}
    for leader in leaders:
        for producer_id, producer in leader.log.known_producers(wall_ms).by_id.items():
            if producer.transaction_start >= 0:
                unended.setdefault(producer_id, []).append((producer.epoch, leader))
    for shard in shards:
        for transaction in shard.transactions.committed().values():
            if not transaction.state.is_idle:
                continue
            for epoch, leader in unended.get(transaction.producer_id, ()):
                if epoch < transaction.producer_epoch:
                    raise Violation(
                        f"T1 {transaction.transactional_id} is {transaction.state.value}, and the transaction of its "
                        f"epoch {epoch} is still open in {leader}"
                    )


def check_open_transactions(log: Log, stored: StoredLog, wall_ms: int) -> None:
    """L4: the open transactions that a log remembers are those in its batches."""
    seen = seen_in(stored.batches)
    known = {
        producer_id: producer.transaction_start
        for producer_id, producer in log.known_producers(wall_ms).by_id.items()
        if producer.transaction_start >= stored.start
    }
    wrong = [
        producer_id
        for producer_id, first in known.items()
        if first not in (seen.open.get(producer_id), seen.emptied.get(producer_id))
    ]
    unknown = [producer_id for producer_id in seen.open if producer_id not in known and stored.start == 0]
    if wrong or unknown:
        raise Violation(f"L4 {log.name} has the open transactions {known}, its batches have {seen.open}")


def check_transaction_indexes(files: dict[str, bytes], logs: dict[str, StoredLog]) -> None:
    """L4, T2: the indexes of a log list the aborted transactions in its batches.

    A compacted log may have lost records of a transaction, and lists it as it was.
    """
    for directory, stored in logs.items():
        listed = [
            entry
            for path in sorted(files)
            if path.startswith(f"{directory}/") and path.endswith(".txnindex")
            for entry in _entries(path, files[path])
            if entry[2] >= stored.start
        ]
        aborted = seen_in(stored.batches).aborted
        ends = [one[2] for one in listed]
        if sorted(ends) != ends:
            raise Violation(f"L4 {directory} lists aborted transactions out of order: {listed}")
        missing = [one for one in aborted if (one[0], one[2]) not in [(entry[0], entry[2]) for entry in listed]]
        if missing:
            raise Violation(f"T2 {directory} does not list the aborted transactions {missing}")
        if stored.start == 0 and not directory.startswith("__") and not stored.sparse and listed != aborted:
            raise Violation(f"L4 {directory} lists the aborted transactions {listed}, its batches have {aborted}")


def _entries(path: str, index: bytes) -> list[Aborted]:
    if len(index) % _INDEX_ENTRY.size:
        raise Violation(f"L4 {path} has {len(index)} bytes, which are not whole entries")
    return [(entry[1], entry[2], entry[3], entry[4]) for entry in _INDEX_ENTRY.iter_unpack(index)]
