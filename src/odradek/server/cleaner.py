"""Log compaction: the dirtiest log first, one at a time; records are read and written off the event loop.

The loop plans, and puts the result in place in a few steps. Between these steps the log may be truncated, deleted or
closed; then the result is discarded.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from odradek.base import limits
from odradek.base.errors import KafkaError
from odradek.base.ports import Clock, Spawner
from odradek.base.steps import in_steps
from odradek.log.cleanable import Dirt
from odradek.log.cleaning import Cleaned, CleaningPlan, Replacement, clean, discard
from odradek.log.deleted import remove
from odradek.log.directory import LogDirectory
from odradek.log.folder import Folder
from odradek.log.log import Log
from odradek.metadata.configs.broker import BrokerConfig
from odradek.protocol.malformed import MalformedRecords
from odradek.replication.partition import Partition
from odradek.server.pauses import Pauses

logger = logging.getLogger(__name__)


class Cleaner:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        spawner: Spawner,
        logs: LogDirectory,
        each: Callable[[], AsyncIterator[Partition]],
        slow: Callable[..., Awaitable[None]],
        later: Callable[[int, str, Callable[[], None]], None],
        pauses: Pauses,
    ) -> None:
        """`slow` makes a call on the data directory off the loop, one at a time; `later` makes one after a while."""
        # Replaced when a dynamic key changes; `pauses` are reconsidered then.
        self.config = config
        self._pauses = pauses
        self._step_began_ms = 0
        self._clock = clock
        self._spawner = spawner
        self._logs = logs
        self._each = each
        self._slow = slow
        self._later = later
        # A search or a run is under way that a stop may cancel.
        self.interruptible = False

    async def clean_dirtiest(self, passed_over: dict[Partition, None]) -> bool:
        """False when there was nothing to do, or it could not be done. A log that fails is added to `passed_over`."""
        partition = await self._dirtiest(passed_over)
        if partition is None:
            return False
        # Check again: while others were looked at, this one may have been truncated or deleted.
        dirt = self._due(partition)
        if dirt is None:
            return True
        wall_ms = self._clock.wall_ms()
        keys = self.config.log_cleaner_dedupe_buffer_size
        try:
            plan = partition.log.compacting.plan(dirt, partition.high_watermark, wall_ms, keys)
            cleaned = await self._run(plan)
        except (MalformedRecords, KafkaError) as broken:
            _leave_alone(partition, broken)
            return True
        except OSError as broken:
            if broken.errno == errno.ENOSPC:
                raise  # no other log would succeed
            logger.warning("%s is not compacted this time: %s", partition, broken)
            passed_over[partition] = None
            return True
        try:
            return await self._put_in_place(partition, plan, cleaned)
        except KafkaError as broken:
            _leave_alone(partition, broken)
            return True

    async def _dirtiest(self, passed_over: dict[Partition, None]) -> Partition | None:
        found: Partition | None = None
        ratio = -1.0
        self.interruptible = True
        try:
            async for partition in self._each():
                dirt = self._due(partition) if partition not in passed_over else None
                if dirt is not None and dirt.ratio > ratio:
                    found, ratio = partition, dirt.ratio
        finally:
            self.interruptible = False
        return found

    def _due(self, partition: Partition) -> Dirt | None:
        log = partition.log
        if not log.config.compacts or log.offline is not None or log.compacting.unreadable is not None:
            return None
        try:
            dirt = log.compacting.dirt(partition.last_stable_offset, self._clock.wall_ms())
        except KafkaError as broken:
            _leave_alone(partition, broken)
            return None
        return dirt if dirt.is_due(log.config) else None

    async def _run(self, plan: CleaningPlan) -> Cleaned:
        """A thread slows the event loop, but for a small log starting a process takes longer than cleaning."""
        disk = self._logs.disk
        self.interruptible = True
        self._step_began_ms = self._clock.monotonic_ms()
        cleaned: Cleaned
        try:
            if disk.shared and plan.size_bytes > limits.cleaning_in_thread_bytes_max:
                cleaned = await self._spawner.apart(clean, disk, plan, rest=self._rest)
            else:
                cleaned = await in_steps(self._spawner.blocking, clean(disk, plan), self._rest)
            await self._rest(cleaned.last_step_bytes)
            return cleaned
        finally:
            self.interruptible = False

    async def _rest(self, moved_bytes: int) -> None:
        """Sleeps until the step has taken as long as the configured rate requires."""
        took_ms = self._clock.monotonic_ms() - self._step_began_ms

        def left_ms() -> int:
            return int(moved_bytes * 1000 / self.config.log_cleaner_io_max_bytes_per_second) - took_ms

        await self._pauses.last(left_ms)
        self._step_began_ms = self._clock.monotonic_ms()

    async def _put_in_place(self, partition: Partition, plan: CleaningPlan, cleaned: Cleaned) -> bool:
        log = partition.log
        # Where offsets are missing, recovery must not look for loss.
        await self._slow(self._logs.write_checkpoints)
        for replacement in cleaned.replacements:
            if not await self._swap(log, plan, replacement):
                # Perhaps retention deleted these segments first: the other replacements are still valid.
                await self._slow(discard, Folder(self._logs.disk, plan.directory), replacement)
        if not log.compacting.is_as_planned(plan):
            logger.info("%s changed while it was compacted: compaction will be retried", partition)
            return False
        log.compacting.cleaned(plan, cleaned.end_offset)
        await self._slow(self._logs.write_checkpoints)
        logger.info(
            "%s: compacted up to offset %d, %d bytes to %d",
            *(partition, cleaned.end_offset, plan.size_bytes, plan.size_bytes - cleaned.saved_bytes(plan)),
        )
        return True

    async def _swap(self, log: Log, plan: CleaningPlan, replacement: Replacement) -> bool:
        swap = log.compacting.begin_swap(plan, replacement)
        if swap is None:
            return False
        while log.compacting.step_swap():
            await self._slow(swap.sync)
        if swap.deleted:
            self._later(
                log.config.file_delete_delay_ms, f"remove segments of {log.name}", partial(remove, swap.deleted)
            )
        return log.offline is None


def _leave_alone(partition: Partition, broken: Exception) -> None:
    if partition.log.offline is not None:
        logger.warning("%s is offline: %s", partition, broken)
        return
    logger.warning("%s is not compacted until a restart: %s", partition, broken)
    partition.log.compacting.unreadable = str(broken)
