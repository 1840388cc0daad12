"""Fsync for the topics that ask for it (`flush.messages`): one at a time, off the loop, for all who wait.

Whatever is appended while one runs is the next group, so the cost of an fsync is shared by everyone who needs one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from odradek.base.ports import Spawner
from odradek.replication.partition import Partition

if TYPE_CHECKING:
    from odradek.log.log import SyncWork

logger = logging.getLogger(__name__)


class GroupCommit:
    __slots__ = ("_running", "_spawner", "_waiting")

    def __init__(self, spawner: Spawner) -> None:
        self._spawner = spawner
        # Partitions with something to sync that no fsync under way covers, in order of arrival.
        self._waiting: dict[Partition, None] = {}
        self._running = False

    def request(self, partition: Partition) -> None:
        self._waiting[partition] = None
        if not self._running:
            self._running = True
            self._spawner.spawn("group commit", self._run())

    async def _run(self) -> None:
        while self._waiting:
            group, self._waiting = list(self._waiting), {}
            work = [partition.log.begin_sync() for partition in group]
            failures = await self._spawner.blocking(_sync_all, work)
            for partition, done, failure in zip(group, work, failures, strict=True):
                if failure is None:
                    partition.log.finish_sync(done)
                    partition.synced(done.end_offset, again=partition in self._waiting)
                else:
                    logger.error("fsync of %s failed: %s", partition, failure)
                    partition.log.fail(failure)
                    partition.sync_failed()
        self._running = False


def _sync_all(work: list[SyncWork]) -> list[OSError | None]:
    return [_sync(one) for one in work]


def _sync(work: SyncWork) -> OSError | None:
    try:
        work.run()
    except OSError as failure:
        return failure
    return None
