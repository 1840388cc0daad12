"""The metadata log on this node's disk: appended to, truncated, and synced, one fsync at a time.

An I/O error ends it: its records may or may not survive, so no request is answered any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.base.errors import ErrorCode, KafkaError, NotController
from odradek.base.ids import LeaderEpoch, Offset
from odradek.base.invariants import invariant
from odradek.base.ports import Ports
from odradek.log.log import Log


class QuorumLog:
    """`on_synced` is called after each fsync, `on_failed` on an error."""

    def __init__(
        self, log: Log, ports: Ports, *, on_synced: Callable[[], None], on_failed: Callable[[Exception], None]
    ) -> None:
        self.log = log
        self._ports = ports
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._syncing: asyncio.Task[None] | None = None
        self._has_failed = False

    def append(self, batch: bytearray, leader_epoch: LeaderEpoch, last_offset: Offset) -> None:
        """As the leader. Raises NOT_CONTROLLER after a failure."""
        try:
            appended = self.log.appending.trusted(batch, leader_epoch, self._ports.clock.wall_ms())
        except (OSError, KafkaError) as failed:
            self.fail(failed)
            raise NotController(ErrorCode.NOT_CONTROLLER, "The metadata log failed.") from failed
        invariant(appended.last_offset == last_offset, "the metadata log and the image count differently")
        self.sync_soon()

    def append_fetched(self, records: bytes) -> bool:
        """Returns whether it succeeded, as do the methods below."""
        return self._done(lambda: self.log.appending.as_follower(memoryview(records), self._ports.clock.wall_ms()))

    def truncate_to(self, offset: Offset) -> bool:
        return self._done(lambda: self.log.truncation.to(offset))

    def begin_anew_at(self, offset: Offset) -> bool:
        return self._done(lambda: self.log.truncation.fully_and_start_at(offset))

    def sync_soon(self) -> None:
        if self._syncing is None and not self._has_failed and self.log.recovery_point < self.log.log_end_offset:
            self._syncing = self._ports.spawner.spawn("metadata sync", self._sync())

    async def idle(self) -> None:
        if self._syncing is not None:
            await asyncio.wait([self._syncing])

    async def close(self) -> None:
        if not self._has_failed:
            await self._ports.spawner.blocking(self.log.close)

    def fail(self, failed: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._on_failed(failed)

    def _done(self, change: Callable[[], object]) -> bool:
        try:
            change()
        except (OSError, KafkaError) as failed:
            self.fail(failed)
            return False
        return True

    async def _sync(self) -> None:
        """Records appended meanwhile are in the next group."""
        try:
            while self.log.recovery_point < self.log.log_end_offset:
                work = self.log.syncing.begin()
                await self._ports.spawner.blocking(work.run)
                self.log.syncing.finish(work)
                self._on_synced()
        except (OSError, KafkaError) as failed:
            self.fail(failed)
        finally:
            self._syncing = None
