"""The committed offsets of the groups of one partition, and those of open transactions.

Writers see a change as soon as it is in the log, readers when the high watermark has passed it. An offset that was
written in a transaction is pending until the transaction's marker, and then counts only if no newer one was written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping

from odradek.base.ids import NO_PRODUCER, Offset, ProducerId
from odradek.coordinator.group.changes import CommittedOffset, OffsetStored, PartitionKey
from odradek.coordinator.two_views import TwoViews

_NO_OFFSETS: Mapping[PartitionKey, CommittedOffset] = {}
_Offsets = TwoViews[PartitionKey, CommittedOffset]


class OffsetStore:
    __slots__ = ("_ended", "_groups", "_open", "_pending_count", "_uncommitted")

    def __init__(self) -> None:
        # Without groups that have no offsets.
        self._groups: dict[str, _Offsets] = {}
        # In log order: the groups of changes that the high watermark has not passed.
        self._uncommitted: deque[tuple[Offset, str]] = deque()
        # What transactions that are open in this partition will commit.
        self._open: dict[ProducerId, dict[tuple[str, PartitionKey], CommittedOffset]] = {}
        # In log order: markers above the high watermark, and what they ended.
        self._ended: deque[tuple[Offset, list[tuple[str, PartitionKey]]]] = deque()
        # By group and partition: the transactions that have an offset and no committed marker. No zeros, no empty
        # dictionaries.
        self._pending_count: dict[str, dict[PartitionKey, int]] = {}

    def put(self, change: OffsetStored, at: Offset, producer_id: ProducerId = NO_PRODUCER) -> None:
        if change.committed is None:
            self._drop_pending(change.group_id, change.partition)
            self._put(change, at)
        elif producer_id == NO_PRODUCER:
            self._put(change._replace(committed=change.committed._replace(at=at)), at)
        else:
            offset = change.committed._replace(at=at)
            pending = self._open.setdefault(producer_id, {})
            if (change.group_id, change.partition) not in pending:
                self._count(change.group_id, change.partition, 1)
            pending[change.group_id, change.partition] = offset

    def end_transaction(self, producer_id: ProducerId, committed: bool, at: Offset) -> None:
        """The marker at `at` ends this producer's transaction in this partition."""
        ended = self._open.pop(producer_id, {})
        self._ended.append((at, list(ended)))
        for (group_id, partition), offset in ended.items():
            newest = self.latest(group_id).get(partition)
            # Without this comparison the result would depend on what compaction has left of the log.
            if committed and (newest is None or newest.at < offset.at):
                self._put(OffsetStored(group_id, partition, offset), at)

    def pending(self, group_id: str) -> Collection[PartitionKey]:
        """Partitions whose committed offset a transaction may still change. Open until its marker is committed."""
        return self._pending_count.get(group_id, {}).keys()

    def _drop_pending(self, group_id: str, partition: PartitionKey) -> None:
        if partition not in self._pending_count.get(group_id, {}):
            return
        for producer_id, pending in list(self._open.items()):
            if pending.pop((group_id, partition), None) is not None:
                self._count(group_id, partition, -1)
            if not pending:
                del self._open[producer_id]

    def _count(self, group_id: str, partition: PartitionKey, step: int) -> None:
        of_group = self._pending_count.setdefault(group_id, {})
        of_group[partition] = of_group.get(partition, 0) + step
        if not of_group[partition]:
            del of_group[partition]
            if not of_group:
                del self._pending_count[group_id]

    def _put(self, change: OffsetStored, at: Offset) -> None:
        offsets = self._groups.get(change.group_id)
        if offsets is None:
            offsets = self._groups[change.group_id] = TwoViews()
        offsets.put(change.partition, change.committed, at)
        self._uncommitted.append((at, change.group_id))

    def commit(self, high_watermark: Offset) -> None:
        uncommitted = self._uncommitted
        while uncommitted and uncommitted[0][0] < high_watermark:
            _, group_id = uncommitted.popleft()
            offsets = self._groups.get(group_id)
            if offsets is not None:
                offsets.commit(high_watermark)
                if not offsets:
                    del self._groups[group_id]
        while self._ended and self._ended[0][0] < high_watermark:
            for group_id, partition in self._ended.popleft()[1]:
                self._count(group_id, partition, -1)

    def committed(self, group_id: str) -> Mapping[PartitionKey, CommittedOffset]:
        """For readers."""
        offsets = self._groups.get(group_id)
        return _NO_OFFSETS if offsets is None else offsets.committed()

    def latest(self, group_id: str) -> Mapping[PartitionKey, CommittedOffset]:
        """For writers: what is there once everything in the log is committed."""
        offsets = self._groups.get(group_id)
        return _NO_OFFSETS if offsets is None else offsets.newest

    def everything(self) -> Iterator[tuple[str, PartitionKey, CommittedOffset]]:
        """The latest offsets of all groups, and what open transactions will commit."""
        for group_id, offsets in self._groups.items():
            for partition, committed in offsets.newest.items():
                yield group_id, partition, committed
        yield from self.open()

    def open(self) -> Iterator[tuple[str, PartitionKey, CommittedOffset]]:
        """What open transactions will commit."""
        for pending in self._open.values():
            for (group_id, partition), offset in pending.items():
                yield group_id, partition, offset
