"""Committed records, as first seen: every node must have the same ones, from then on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from odradek.log.log import Log
from odradek.sim.history import Violation
from odradek.sim.keyed import Deletions, check_compacted, is_transactional, key_of
from odradek.sim.loop import Host
from odradek.sim.records import SeenBatch, whole_batches

_READ_BYTES = 1 << 20


class Ledger:
    """For one log on several nodes. Kept batch by batch; each node is read on from where the last look ended."""

    def __init__(self, promise: str, name: str) -> None:
        self._promise = promise
        self._name = name
        # Last offset, checksum and leader epoch, by base offset.
        self._batches: dict[int, tuple[int, int, int]] = {}
        self._read_to: dict[Host, int] = {}
        self.end = 0

    def compare(self, host: Host, log: Log, high_watermark: int) -> None:
        """All nodes must have the same committed batches."""
        position = max(self._read_to.get(host, 0), log.log_start_offset)
        with _perhaps_another_time():
            for batch in batches_between(log, position, high_watermark):
                self._compare_batch(host, batch.base_offset, (batch.last_offset, batch.crc, batch.leader_epoch))
                position = batch.last_offset + 1
        self._read_to[host] = position
        self.end = max(self.end, position)

    def _compare_batch(self, host: Host, base_offset: int, found: tuple[int, int, int]) -> None:
        known = self._batches.setdefault(base_offset, found)
        if known != found:
            raise Violation(
                f"{self._promise} {self._name} at {base_offset}: {host.name} has {found}, and {known} was committed "
                "(last offset, checksum, leader epoch)"
            )


class CompactedLedger:
    """For a log that every node compacts on its own: compared by record; no node may lack the latest of a key."""

    def __init__(self, name: str, deletions: Deletions) -> None:
        self._name = name
        self._deletions = deletions
        self._keeps_latest = not is_transactional(name)
        # By offset: the record as text, and its leader epoch.
        self._records: dict[int, tuple[bytes, int]] = {}
        # By key.
        self._latest: dict[bytes, int] = {}
        self._read_to: dict[Host, int] = {}
        self._shapes: dict[Host, list[tuple[int, int]]] = {}
        # Nodes whose segments changed since the last look, and their high watermarks.
        self._changed: dict[Host, tuple[Log, int]] = {}
        self.end = 0

    def compare(self, host: Host, log: Log, high_watermark: int) -> None:
        """From where the last look ended, or all of the log when the node has rolled, compacted or deleted anything."""
        with _perhaps_another_time():
            self._compare(host, log, high_watermark)

    def _compare(self, host: Host, log: Log, high_watermark: int) -> None:
        has_changed = _shape(log) != self._shapes.get(host)
        position = log.log_start_offset
        if not has_changed:
            position = max(self._read_to.get(host, 0), position)
        for batch in batches_between(log, position, high_watermark):
            for offset, told in batch.records():
                self._compare_record(host, offset, (told, batch.leader_epoch))
            position = batch.last_offset + 1
        self._read_to[host] = position
        self.end = max(self.end, position)
        if has_changed and self._keeps_latest:
            self._changed[host] = (log, high_watermark)
        elif has_changed:
            self._shapes[host] = _shape(log)

    def _compare_record(self, host: Host, offset: int, found: tuple[bytes, int]) -> None:
        known = self._records.get(offset)
        if known is None:
            self._records[offset] = found
            key = key_of(found[0])
            self._latest[key] = max(self._latest.get(key, -1), offset)
        elif known != found:
            raise Violation(f"R3 {self._name} at {offset}: {host.name} has {found}, and {known} was committed")

    def require_latest(self, *, all_compared: bool) -> None:
        """Checks that no node lacks the latest record of a key.

        A leader may have compacted by records that only it knows to be committed, and its followers then lack the
        replaced ones. So a node that seems to lack a record is judged only once all nodes have been compared.
        """
        for host, (log, high_watermark) in self._changed.items():
            with _perhaps_another_time():
                try:
                    self._require_latest(host, log, high_watermark)
                except Violation:
                    if all_compared:
                        raise
                    continue
                self._shapes[host] = _shape(log)
        self._changed.clear()

    def _require_latest(self, host: Host, log: Log, high_watermark: int) -> None:
        """Above this node's high watermark, its leader may have compacted away the records that it lacks."""
        start = log.log_start_offset
        left = {
            offset: told
            for batch in batches_between(log, start, log.log_end_offset)
            for offset, told in batch.records()
        }
        unseen = self._last_unseen(high_watermark) if self._deletions is not Deletions.STAY else -1
        # A deletion may be written and removed between two looks. A node that missed none then has nothing of the key.
        has_missed_none = self._deletions is not Deletions.ARE_MISSED
        keys_left = {key_of(told) for told in left.values()} if has_missed_none else set()
        latest = {
            offset: self._records[offset][0]
            for key, offset in self._latest.items()
            if offset < high_watermark and (key in keys_left or offset > unseen)
        }
        check_compacted(f"{self._name} of {host.name}", latest, left, self._deletions, start=start)

    def _last_unseen(self, high_watermark: int) -> int:
        return next((offset for offset in range(high_watermark - 1, -1, -1) if offset not in self._records), -1)


def _shape(log: Log) -> list[tuple[int, int]]:
    return [(segment.base_offset, segment.size) for segment in log.segments.in_order[:-1]]


def _perhaps_another_time() -> suppress:
    """Reading may rebuild an index that a power cut removed, and the disk may fail that write now."""
    return suppress(OSError)


def batches_between(log: Log, position: int, end_offset: int) -> Iterator[SeenBatch]:
    while position < end_offset:
        region = log.read(position, _READ_BYTES, end_offset, whole_first_batch=True)
        if region is None:
            break
        data = region.read()
        region.release()
        begin = position
        for batch in whole_batches(data):
            if batch.last_offset >= position:
                yield batch
                position = batch.last_offset + 1
        if position == begin:
            break  # the batch is damaged: other checkers say so
