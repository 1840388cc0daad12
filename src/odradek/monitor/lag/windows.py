"""The last commits of a group for one topic, in packed arrays: a thousand groups of a hundred partitions take 30 MB.

Each partition has a ring of `intervals` commits. A window becomes objects only when it is evaluated.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from odradek.monitor.lag.evaluation import Commit

NO_OFFSET = -1
NO_LAG = -1


# Partition, committed offset, time of the commit in milliseconds. A plain tuple: one is made for each commit.
Position = tuple[int, int, int]


class TopicCommits:
    def __init__(self, partitions: int, intervals: int) -> None:
        self._intervals = intervals
        # Rings, one after the other: that of partition p begins at p * intervals.
        self._offsets = array("q")
        self._timestamps_ms = array("q")
        self._lags = array("q")
        self._observed_s = array("I")
        # The slot that the next commit of a partition gets, and how many slots are filled.
        self._next = array("H")
        self._filled = array("H")
        # The last committed offset, to sum up lag without looking at rings.
        self.newest = array("q")
        # The host and client id of the member that the partition is assigned to. Burrow shows an empty window for an
        # assigned partition, and none for a partition that was never assigned and never committed.
        self._owners: dict[int, tuple[str, str]] = {}
        self._has_window = bytearray()
        self.grow(partitions)

    def __len__(self) -> int:
        return len(self.newest)

    def grow(self, partitions: int) -> None:
        more = partitions - len(self)
        if more <= 0:
            return
        for ring in (self._offsets, self._timestamps_ms, self._lags, self._observed_s):
            ring.extend([0] * (more * self._intervals))
        self._next.extend([0] * more)
        self._filled.extend([0] * more)
        self.newest.extend([NO_OFFSET] * more)
        self._has_window.extend(bytes(more))

    def add(self, positions: Iterable[Position], ends: Sequence[int], now_s: int, min_distance_ms: int) -> int | None:
        """Appends commits. Drops commits of partitions without a known log end, as Burrow does.

        Returns the time of the last commit that was not dropped. This is the only code that runs for each commit of a
        cluster: no calls, no objects.
        """
        accepted_ms = None
        intervals, known = self._intervals, min(len(self), len(ends))
        offsets, timestamps, lags, observed = self._offsets, self._timestamps_ms, self._lags, self._observed_s
        newest, following, filled, has_window = self.newest, self._next, self._filled, self._has_window
        for partition, offset, timestamp_ms in positions:
            if not 0 <= partition < known or (end := ends[partition]) < 0:
                continue
            slot = following[partition]
            base = partition * intervals
            count = filled[partition]
            previous = base + (slot - 1) % intervals
            if count and timestamp_ms - timestamps[previous] < min_distance_ms:
                # The earlier time stays. Otherwise frequent commits would never fill a second slot.
                at = previous
            else:
                at = base + slot
                timestamps[at] = timestamp_ms
                slot += 1
                following[partition] = 0 if slot == intervals else slot
                if count < intervals:
                    filled[partition] = count + 1
            offsets[at] = newest[partition] = offset
            lags[at] = end - offset if end > offset else 0
            observed[at] = now_s
            has_window[partition] = 1
            accepted_ms = timestamp_ms
        return accepted_ms

    def forget(self, partition: int) -> None:
        """The committed offset was deleted."""
        if partition < len(self):
            self.newest[partition] = NO_OFFSET
            self._next[partition] = self._filled[partition] = self._has_window[partition] = 0

    @property
    def is_empty(self) -> bool:
        return not any(self._has_window)

    def assign(self, partition: int, host: str, client_id: str) -> None:
        if partition < len(self):
            self._owners[partition] = host, client_id
            self._has_window[partition] = 1

    def clear_owners(self) -> None:
        self._owners.clear()

    def owner(self, partition: int) -> tuple[str, str]:
        return self._owners.get(partition, ("", ""))

    def has_window(self, partition: int) -> bool:
        """False for a partition that was never committed nor assigned."""
        return bool(self._has_window[partition])

    def window(self, partition: int) -> list[Commit]:
        """Oldest first."""
        base, slot, count = partition * self._intervals, self._next[partition], self._filled[partition]
        first = slot - count  # negative when the window wraps around the end of its ring
        places = [base + at % self._intervals for at in range(first, slot)]
        return [
            Commit(
                self._offsets[at],
                self._timestamps_ms[at],
                self._observed_s[at] * 1000,
                None if self._lags[at] == NO_LAG else self._lags[at],
            )
            for at in places
        ]
