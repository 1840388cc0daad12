"""Transactions while a log is compacted: which batches were aborted, and which markers are still needed.

A marker is needed until all batches of its transaction are gone. After that it is kept as long as a tombstone, for
readers that have read the batches and not yet the marker.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.log import safeguards
from odradek.log.transactions import AbortedTransaction
from odradek.protocol.batch import BatchHeader
from odradek.protocol.txn_marker import read_marker


class CompactedTransactions:
    """Gets all batches of a part of the log, in order."""

    __slots__ = ("_aborting", "_committing", "_kept", "_upcoming")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted`: those with a marker in this part of the log or after it."""
        self._upcoming = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        # By producer id: its transaction at this point of the log, and whether batches of it were seen.
        self._aborting: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committing: dict[int, None] = {}
        self._kept: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Take a batch of records. True if its transaction was aborted."""
        self._advance_to(header.last_offset)
        if not header.is_transactional:
            return False
        aborting = self._aborting.get(header.producer_id)
        if aborting is None:
            self._committing[header.producer_id] = None
            return False
        self._aborting[header.producer_id] = (aborting[0], True)
        return True

    def needs_marker(self, header: BatchHeader, batch: memoryview) -> bool:
        """Take a control batch. False if no batch of its transaction is left."""
        self._advance_to(header.last_offset)
        marker = read_marker(header, batch)
        if marker is None:
            return header.records_count > 0  # another control record, or a marker that is emptied already
        if marker.committed:
            has_batches = marker.producer_id in self._committing
            self._committing.pop(marker.producer_id, None)
            return safeguards.keeps_marker(has_batches)
        aborted, has_batches = self._aborting.pop(marker.producer_id, (None, False))
        if aborted is not None and has_batches:
            self._kept.append(aborted)
        return safeguards.keeps_marker(has_batches)

    def taken(self) -> list[AbortedTransaction]:
        """The entries for the index of the segment that gets the batch read last."""
        kept, self._kept = self._kept, []
        return kept

    def _advance_to(self, offset: int) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= offset:
            aborted = self._upcoming.pop()
            self._aborting.setdefault(aborted.producer_id, (aborted, False))
