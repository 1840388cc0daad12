"""The last commits of a group for one topic, in packed arrays: a thousand groups of a hundred partitions take 30 MB.

Each partition has a ring of `intervals` commits. A window becomes objects only when it is evaluated. The rings are laid
out so that commits of neighbouring partitions are neighbours in memory: a consumer that commits all its partitions at
once fills one slot of all their rings with a few copies of memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from odradek.monitor.lag.evaluation import Commit, Window

NO_OFFSET = -1
LAG_MAX = (1 << 63) - 1

Position = tuple[int, int, int]  # partition, committed offset, time of the commit in milliseconds


@dataclass(frozen=True, slots=True)
class Positions:
    """Commits of a group for one topic, oldest first, in columns of the same length: a cluster writes 20,000 a second,
    so there is no object for each."""

    partitions: Sequence[int]
    offsets: Sequence[int]
    times_ms: Sequence[int]

    @classmethod
    def of(cls, *each: Position) -> Positions:
        """At least one."""
        return cls(*zip(*each, strict=True))

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[Position]:
        return zip(self.partitions, self.offsets, self.times_ms, strict=True)


class TopicCommits:
    def __init__(self, partitions: int, intervals: int) -> None:
        self._intervals = intervals
        # Slot s of the ring of partition p is at s * number of partitions + p.
        self._offsets = array("q")
        self._timestamps_ms = array("q")
        self._lags = array("q")
        self._observed_s = array("I")
        # How many commits each ring has got. The last ones are in it.
        self._counts = array("q")
        # No commit is later than this.
        self._latest_ms = 0
        # The last committed offset, to sum up lag without looking at rings.
        self.newest = array("q")
        # The host and client id of the member that the partition is assigned to. Burrow shows an empty window for an
        # assigned partition, and none for a partition that was never assigned and never committed.
        self._owners: dict[int, tuple[str, str]] = {}
        self._was_assigned: set[int] = set()
        self.grow(partitions)

    def __len__(self) -> int:
        return len(self.newest)

    def grow(self, partitions: int) -> None:
        before, more = len(self), partitions - len(self)
        if more <= 0:
            return
        for ring in (self._offsets, self._timestamps_ms, self._lags, self._observed_s):
            for slot in range(self._intervals):
                at = slot * partitions + before
                ring[at:at] = array(ring.typecode, bytes(more * ring.itemsize))
        self._counts.frombytes(bytes(more * self._counts.itemsize))
        self.newest.extend([NO_OFFSET] * more)

    def add(self, positions: Positions, ends: Sequence[int], now_s: int, min_distance_ms: int) -> int | None:
        """Appends commits. Drops those of partitions without a known log end, as Burrow does.

        Returns the time of the last commit that was not dropped.
        """
        times_ms = positions.times_ms
        is_later = times_ms[0] >= self._latest_ms and times_ms.count(times_ms[0]) == len(times_ms)
        self._latest_ms = max(self._latest_ms, times_ms[0] if is_later else max(times_ms))
        if is_later and min_distance_ms == 0:
            if self._append_together(positions, ends, now_s):
                return times_ms[0]
            return self._append(positions, ends, now_s)
        accepted_ms = None
        for partition, offset, timestamp_ms in positions:
            if not (0 <= partition < len(self) and self._counts[partition]):
                stored_ms = timestamp_ms
            elif timestamp_ms - (last_ms := self._timestamps_ms[self._slot(partition, -1)]) < min_distance_ms:
                # The commit replaces the last one, whose time stays. Otherwise frequent commits would never fill a
                # second slot.
                self._counts[partition] -= 1
                stored_ms = last_ms
            else:
                stored_ms = timestamp_ms
            if self._append(Positions.of((partition, offset, stored_ms)), ends, now_s) is not None:
                accepted_ms = timestamp_ms
        return accepted_ms

    def _append_together(self, positions: Positions, ends: Sequence[int], now_s: int) -> bool:
        """The usual case, in one piece: one time, no negative offset, and neighbouring partitions that have
        committed equally often.

        False, and nothing has changed: it is not that case.
        """
        first, count = positions.partitions[0], len(positions)
        last = first + count
        if first < 0 or last > min(len(self), len(ends)) or list(positions.partitions) != list(range(first, last)):
            return False
        if min(positions.offsets) < 0:
            return False
        committed = self._counts[first]
        if self._counts[first:last].count(committed) < count or min(ends[first:last]) < 0:
            return False
        at = committed % self._intervals * len(self) + first
        end = at + count
        self._offsets[at:end] = self.newest[first:last] = array("q", positions.offsets)
        self._timestamps_ms[at:end] = array("q", [positions.times_ms[0]]) * count
        self._observed_s[at:end] = array("I", [now_s]) * count
        lags = [end - offset for end, offset in zip(ends[first:last], positions.offsets, strict=True)]
        self._lags[at:end] = array("q", lags if min(lags) >= 0 else [max(lag, 0) for lag in lags])
        self._counts[first:last] = array("q", [committed + 1]) * count
        return True

    def _append(self, positions: Positions, ends: Sequence[int], now_s: int) -> int | None:
        size, intervals, known = len(self), self._intervals, min(len(self), len(ends))
        offsets, timestamps, lags, observed = self._offsets, self._timestamps_ms, self._lags, self._observed_s
        newest, counts = self.newest, self._counts
        accepted_ms = None
        for partition, offset, timestamp_ms in positions:
            if not 0 <= partition < known or (end := ends[partition]) < 0:
                continue
            count = counts[partition]
            at = count % intervals * size + partition
            counts[partition] = count + 1
            newest[partition] = offsets[at] = offset
            timestamps[at] = accepted_ms = timestamp_ms
            # Brokers do not check offsets: they may be negative, down to -2^63.
            lags[at] = min(end - offset, LAG_MAX) if end > offset else 0
            observed[at] = now_s
        return accepted_ms

    def _slot(self, partition: int, back: int) -> int:
        """Where the last commit is (-1), or the one before it (-2)."""
        return (self._counts[partition] + back) % self._intervals * len(self) + partition

    def correct_lags(self, partition: int, ends_at: Mapping[int, int]) -> None:
        """`ends_at` has log ends at times of commits, in milliseconds. Commits of other times keep their lag."""
        for back in range(min(self._counts[partition], self._intervals)):
            at = self._slot(partition, -1 - back)
            if (end := ends_at.get(self._timestamps_ms[at])) is not None:
                self._lags[at] = min(max(end - self._offsets[at], 0), LAG_MAX)

    def forget(self, partition: int) -> None:
        """The committed offset was deleted."""
        if partition < len(self):
            self.newest[partition] = NO_OFFSET
            self._counts[partition] = 0
            self._was_assigned.discard(partition)

    @property
    def is_empty(self) -> bool:
        return not any(self._counts) and not self._was_assigned

    def assign(self, partition: int, host: str, client_id: str) -> None:
        if partition < len(self):
            self._owners[partition] = host, client_id
            self._was_assigned.add(partition)

    def clear_owners(self) -> None:
        self._owners.clear()

    def owner(self, partition: int) -> tuple[str, str]:
        return self._owners.get(partition, ("", ""))

    def has_window(self, partition: int) -> bool:
        """False for a partition that was never committed nor assigned."""
        return self._counts[partition] > 0 or partition in self._was_assigned

    def commits(self, partition: int) -> list[Commit]:
        """Oldest first."""
        rings = (self._offsets, self._timestamps_ms, self._observed_s, self._lags)
        return [
            Commit(offset, timestamp_ms, observed_s * 1000, lag)
            for offset, timestamp_ms, observed_s, lag in zip(
                *(self._unrolled(ring, partition) for ring in rings), strict=True
            )
        ]

    def window(self, partition: int) -> Window | None:
        """The same for the evaluation, without an object for each commit. None without a commit."""
        if not self._counts[partition]:
            return None
        filled = min(self._counts[partition], self._intervals)
        return Window(
            self._unrolled(self._offsets, partition),
            self._unrolled(self._lags, partition),
            self._timestamps_ms[self._slot(partition, -filled)],
            self._timestamps_ms[self._slot(partition, -1)],
        )

    def _unrolled(self, ring: array[int], partition: int) -> array[int]:
        slots, count = ring[partition :: len(self)], self._counts[partition]
        if count <= self._intervals:
            return slots[:count]
        oldest = count % self._intervals
        return slots[oldest:] + slots[:oldest]
