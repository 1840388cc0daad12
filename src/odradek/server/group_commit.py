"""Every fsync of the data logs: one at a time, off the loop, shared by all waiters.

What is appended while one runs is in the next group, so topics that need an fsync (`flush.messages`) share its cost.
Segments that were filled are synced in the background, to keep recovery after a crash short.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from odradek.base.errors import KafkaError
from odradek.base.ports import Clock, Spawner
from odradek.log.durability import SyncWork
from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)


class GroupCommit:
    __slots__ = ("_clock", "_filled_segments", "_running", "_spawner", "_waiting", "took")

    def __init__(self, spawner: Spawner, clock: Clock) -> None:
        self._spawner = spawner
        self._clock = clock
        # Called with the nanoseconds that the sync of a log took.
        self.took: Callable[[int], None] = lambda _: None
        # Not covered by the fsync under way, in order of arrival: whole logs, or only their filled segments.
        self._waiting: dict[Partition, None] = {}
        self._filled_segments: dict[Partition, None] = {}
        self._running: asyncio.Task[None] | None = None

    def request(self, partition: Partition) -> None:
        self._waiting[partition] = None
        self._run_if_idle()

    def request_filled_segments(self, partition: Partition) -> None:
        self._filled_segments[partition] = None
        self._run_if_idle()

    async def idle(self) -> None:
        """Waits until nothing is left to sync."""
        while self._running is not None:
            await asyncio.wait([self._running])

    def _run_if_idle(self) -> None:
        if self._running is None:
            self._running = self._spawner.spawn("group commit", self._run())

    async def _run(self) -> None:
        try:
            while self._waiting or self._filled_segments:
                group = self._begin()
                times = await self._spawner.blocking(_run_all, [work for _, work in group], self._clock)
                for (partition, work), took_ns in zip(group, times, strict=True):
                    self.took(took_ns)
                    self._finish(partition, work)
        finally:
            self._running = None

    def _begin(self) -> list[tuple[Partition, SyncWork]]:
        waiting, self._waiting = self._waiting, {}
        filled, self._filled_segments = self._filled_segments, {}
        group = []
        for partition in waiting | filled:
            try:
                log = partition.log
                group.append((partition, log.syncing.begin() if partition in waiting else log.syncing.begin_rolled()))
            except KafkaError as failure:
                _failed(partition, failure)
        return group

    def _finish(self, partition: Partition, work: SyncWork) -> None:
        try:
            partition.log.syncing.finish(work)
        except KafkaError as failure:
            _failed(partition, failure)
        else:
            partition.synced(work.offset, again=partition in self._waiting)


def _run_all(group: list[SyncWork], clock: Clock) -> list[int]:
    """Slow. Returns the nanoseconds that each took."""
    times = []
    for work in group:
        began_ns = clock.monotonic_ns()
        work.run()
        times.append(clock.monotonic_ns() - began_ns)
    return times


def _failed(partition: Partition, failure: KafkaError) -> None:
    if partition.is_leader:  # and not just deleted
        logger.error("%s is offline: %s", partition, failure)
    partition.sync_failed()
