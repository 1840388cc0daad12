"""What this node counts and times of the metadata log, for its metrics."""

from __future__ import annotations

from collections import deque

from odradek.base.ids import NO_BROKER, BrokerId
from odradek.base.ports import Clock
from odradek.monitor.instruments import Recent

# Appends whose commit is waited for; of more, the oldest are not timed.
TIMED_APPENDS_MAX = 1000


class QuorumTimes:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.appended_records = 0
        self.fetched_records = 0
        self.leader_changes = 0
        self.loaded_snapshots = 0
        self.snapshot_bytes = 0
        self.snapshot_ms = clock.monotonic_ms()
        self.commits = Recent()
        self.elections = Recent()
        self._uncommitted: deque[tuple[int, int]] = deque(maxlen=TIMED_APPENDS_MAX)
        self._without_leader_ns: int | None = clock.monotonic_ns()

    def appended(self, last_offset: int, records: int) -> None:
        """As the leader."""
        self.appended_records += records
        self._uncommitted.append((last_offset, self._clock.monotonic_ns()))

    def committed(self, high_watermark: int) -> None:
        now_ns = self._clock.monotonic_ns()
        while self._uncommitted and self._uncommitted[0][0] < high_watermark:
            _, appended_ns = self._uncommitted.popleft()
            self.commits.observe(now_ns - appended_ns, now_ns)

    def leader_changed(self, leader_id: BrokerId) -> None:
        now_ns = self._clock.monotonic_ns()
        self._uncommitted.clear()
        if leader_id == NO_BROKER:
            if self._without_leader_ns is None:
                self._without_leader_ns = now_ns
            return
        self.leader_changes += 1
        if self._without_leader_ns is not None:
            self.elections.observe(now_ns - self._without_leader_ns, now_ns)
            self._without_leader_ns = None

    def wrote_snapshot(self, size: int) -> None:
        self.snapshot_bytes = size
        self.snapshot_ms = self._clock.monotonic_ms()
