"""Background chores of a broker: retention, checkpoints, fsync, forgetting producers, removing old files.

Compaction, too: `cleaner` does it, this module says when.

Slow calls on the data directory run off the loop, one at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from odradek.base.errors import KafkaError
from odradek.base.ports import Clock, Spawner
from odradek.log.deleted import DeletedSegment, remove
from odradek.log.directory import LogDirectory
from odradek.log.log import Log
from odradek.metadata.configs.broker import BrokerConfig
from odradek.replication.partition import Partition
from odradek.replication.partition_table import PartitionTable
from odradek.server.cleaner import Cleaner
from odradek.server.group_commit import GroupCommit
from odradek.server.pauses import Pauses

logger = logging.getLogger(__name__)

T = TypeVar("T")
Chore = tuple[str, int, Callable[[], Awaitable[None]]]

CHORE_INTERVAL_MS_MIN = 5
FLUSH_CHECK_MS = 1000
FLUSH_CHECK_MS_MIN = 10
PRODUCER_CHECK_MS = 600_000
NEVER_MS = 2**63 - 1
# Partitions handled before other tasks get the event loop.
PARTITIONS_PER_TURN = 200


class Housekeeping:
    def __init__(
        self, *, config: BrokerConfig, clock: Clock, spawner: Spawner, logs: LogDirectory, commits: GroupCommit
    ) -> None:
        self._config = config
        self._clock = clock
        self._spawner = spawner
        self._logs = logs
        self._commits = commits
        self._partitions: PartitionTable
        self._directory_turn = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._chores: list[asyncio.Task[None]] = []
        self._compaction: asyncio.Task[None] | None = None
        self._pauses = Pauses(clock)
        self._cleaner = Cleaner(
            config=config,
            clock=clock,
            spawner=spawner,
            logs=logs,
            each=self._each,
            slow=self.slow,
            later=self._later,
            pauses=self._pauses,
        )
        # Segments removed from their logs but not from disk: the new log start could not be made durable.
        self._unretired: dict[Log, list[DeletedSegment]] = {}
        self._removals: dict[asyncio.TimerHandle, None] = {}

    def start(self, partitions: PartitionTable, more: Sequence[Chore] = ()) -> None:
        """`more`: further chores, with their intervals in milliseconds."""
        self._partitions = partitions
        config = self._config
        for name, interval_ms, chore in (
            ("retention", config.log_retention_check_interval_ms, self.delete_expired),
            ("checkpoints", config.log_flush_offset_checkpoint_interval_ms, self.write_checkpoints),
            ("high watermarks", config.replica_high_watermark_checkpoint_interval_ms, self.write_high_watermarks),
            ("producer expiry", PRODUCER_CHECK_MS, self.forget_producers),
            ("replica lag", config.replica_lag_time_max_ms // 2, self.drop_laggards),
            *more,
        ):
            self._chores.append(self._spawner.spawn(name, self._repeat(name, interval_ms, chore)))
        self._chores.append(self._spawner.spawn("background flush", self._flush_repeatedly()))
        if config.log_cleaner_enable:
            self._compaction = self._spawner.spawn("compaction", self._compact_repeatedly())
            self._chores.append(self._compaction)

    def configure(self, config: BrokerConfig) -> None:
        """Dynamic keys changed. Pauses under way use the new values from now on."""
        self._config = self._cleaner.config = config
        self._pauses.reconsider()

    async def stop(self) -> None:
        """Ends the chores. Files that still wait for removal are found by the next start."""
        self._stopping.set()
        self._pauses.reconsider()
        for removal in self._removals:
            removal.cancel()
        if self._compaction is not None and self._cleaner.interruptible:
            self._compaction.cancel()
        if self._chores:
            await asyncio.wait(self._chores)
        await self._commits.idle()
        await self._try("high watermarks", self.write_high_watermarks)
        # A removal may be under way.
        async with self._directory_turn:
            pass

    # Chores

    async def delete_expired(self) -> None:
        self._forget_unretired()
        async for partition in self._each():
            # Other failed logs lose expired segments, too: on a full disk that makes room.
            if not self._logs.is_reserved(partition.log):
                await self._delete_expired_of(partition)

    async def _delete_expired_of(self, partition: Partition) -> None:
        log = partition.log
        expired = self._unretired.pop(log, [])
        try:
            expired += log.retention.delete_expired(self._clock.wall_ms(), partition.high_watermark)
        except KafkaError as failure:
            logger.warning("%s is offline: %s", partition, failure)
        if not expired:
            return
        try:
            await self.slow(self._logs.retire, expired)
        except OSError as broken:
            logger.warning("expired segments of %s stay on disk until the next attempt: %s", partition, broken)
            self._unretired[log] = expired
            return
        delay_ms = log.config.file_delete_delay_ms
        self._later(delay_ms, f"remove segments of {partition}", partial(remove, expired))

    def _forget_unretired(self) -> None:
        """For logs that are gone, and for logs that were opened again: reopening removed the expired segments."""
        for log in [log for log in self._unretired if self._logs.get(log.topic_partition) is not log]:
            for deleted in self._unretired.pop(log):
                deleted.segment.close()

    async def compact(self) -> None:
        """Log by log, until none is dirty enough."""
        passed_over: dict[Partition, None] = {}
        while not self._stopping.is_set() and await self._cleaner.clean_dirtiest(passed_over):
            pass

    async def write_checkpoints(self) -> None:
        await self.slow(self._logs.write_checkpoints)

    async def write_high_watermarks(self) -> None:
        async with self._directory_turn:
            # Collected only now: topics may be deleted and created while this waits for its turn.
            marks = {partition.log: int(partition.high_watermark) for partition in self._partitions.all()}
            if {log.topic_partition: mark for log, mark in marks.items()} != self._logs.high_watermarks:
                await self._spawner.blocking(self._logs.write_high_watermarks, marks)

    async def forget_producers(self) -> None:
        async for partition in self._each():
            partition.log.expire_producers(self._clock.wall_ms())

    async def drop_laggards(self) -> None:
        """Followers that do not keep up leave the ISR."""
        self._partitions.tick(self._clock.monotonic_ms())

    async def flush(self) -> int:
        """Starts the fsyncs that are due. Returns after how many milliseconds to check again."""
        next_ms = FLUSH_CHECK_MS
        async for partition in self._each():
            log = partition.log
            if log.offline is not None:
                continue
            next_ms = min(next_ms, log.config.flush_ms)
            if log.config.flush_ms < NEVER_MS and log.syncing.is_due(self._clock.wall_ms()):
                self._commits.request(partition)
            elif log.rolling.since_sync:
                self._commits.request_filled_segments(partition)
        return max(next_ms, FLUSH_CHECK_MS_MIN)

    def remove_later(self, directory: str, delay_ms: int) -> None:
        """The directory of a partition that was deleted."""
        self._later(delay_ms, f"remove {directory}", partial(self._logs.remove_deleted, directory))

    # How they run

    async def _repeat(self, name: str, interval_ms: int, chore: Callable[[], Awaitable[None]]) -> None:
        while not await self._stops_within(max(interval_ms, CHORE_INTERVAL_MS_MIN)):
            await self._try(name, chore)

    async def _try(self, name: str, chore: Callable[[], Awaitable[None]]) -> None:
        """A full disk must not stop a node that can still serve reads. A later run does what this one could not."""
        try:
            await chore()
        except OSError as broken:
            logger.warning("%s: %s", name, broken)

    async def _flush_repeatedly(self) -> None:
        interval_ms = FLUSH_CHECK_MS
        while not await self._stops_within(interval_ms):
            interval_ms = await self.flush()

    async def _compact_repeatedly(self) -> None:
        def until_next_ms() -> int:
            return 0 if self._stopping.is_set() else max(self._config.log_cleaner_backoff_ms, CHORE_INTERVAL_MS_MIN)

        while True:
            await self._pauses.last(until_next_ms)
            if self._stopping.is_set():
                return
            await self._try("compaction", self.compact)

    async def _stops_within(self, interval_ms: int) -> bool:
        try:
            async with asyncio.timeout(interval_ms / 1000):
                return await self._stopping.wait()
        except TimeoutError:
            return False

    async def _each(self) -> AsyncIterator[Partition]:
        """All partitions, except those deleted before their turn comes."""
        for position, partition in enumerate(list(self._partitions.all())):
            if position % PARTITIONS_PER_TURN == PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)
            if self._partitions.get(partition.topic, partition.index) is partition:
                yield partition

    async def slow(self, call: Callable[..., T], *args: object) -> T:
        """Off the loop, and the only such call on the data directory."""
        async with self._directory_turn:
            return await self._spawner.blocking(call, *args)

    async def _remove(self, remove: Callable[[], None]) -> None:
        async with self._directory_turn:
            if not self._stopping.is_set():
                await self._spawner.blocking(remove)

    def _later(self, delay_ms: int, what: str, remove: Callable[[], None]) -> None:
        def due() -> None:
            del self._removals[timer]
            self._spawner.spawn(what, self._try(what, partial(self._remove, remove)))

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, due)
        self._removals[timer] = None
