"""The committed offsets of the groups of one partition.

Writers see a change as soon as it is in the log. Readers see it once the high watermark has passed it, so a change of
leader never takes back an offset that was read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from odradek.base.ids import Offset
from odradek.coordinator.group.changes import CommittedOffset, OffsetStored, PartitionKey


class OffsetStore:
    __slots__ = ("_committed", "_latest", "_pending")

    def __init__(self) -> None:
        # No empty inner dictionaries.
        self._committed: dict[str, dict[PartitionKey, CommittedOffset]] = {}
        # In log order: changes that the high watermark has not passed.
        self._pending: deque[tuple[Offset, OffsetStored]] = deque()
        # The newest pending change by group and partition.
        self._latest: dict[str, dict[PartitionKey, OffsetStored]] = {}

    def put(self, change: OffsetStored, at: Offset) -> None:
        self._pending.append((at, change))
        self._latest.setdefault(change.group_id, {})[change.partition] = change

    def commit(self, high_watermark: Offset) -> None:
        pending = self._pending
        while pending and pending[0][0] < high_watermark:
            _, change = pending.popleft()
            latest = self._latest[change.group_id]
            if latest[change.partition] is change:
                del latest[change.partition]
                if not latest:
                    del self._latest[change.group_id]
            self._settle(change)

    def _settle(self, change: OffsetStored) -> None:
        of_group = self._committed.get(change.group_id)
        if change.committed is not None:
            if of_group is None:
                of_group = self._committed[change.group_id] = {}
            of_group[change.partition] = change.committed
        elif of_group is not None:
            of_group.pop(change.partition, None)
            if not of_group:
                del self._committed[change.group_id]

    def committed(self, group_id: str) -> Mapping[PartitionKey, CommittedOffset]:
        """For readers."""
        return self._committed.get(group_id, {})

    def latest(self, group_id: str) -> Mapping[PartitionKey, CommittedOffset]:
        """For writers: what is there once everything in the log is committed."""
        pending = self._latest.get(group_id)
        if pending is None:
            return self.committed(group_id)
        merged = dict(self.committed(group_id))
        for partition, change in pending.items():
            if change.committed is None:
                merged.pop(partition, None)
            else:
                merged[partition] = change.committed
        return merged

    def everything(self) -> Iterator[tuple[str, PartitionKey, CommittedOffset]]:
        """The latest offsets of all groups."""
        for group_id in list(self._committed | self._latest):
            for partition, committed in self.latest(group_id).items():
                yield group_id, partition, committed
