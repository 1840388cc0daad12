"""Partitions whose log failed: other replicas take over, and the log is opened again when the disk works again.

    failed ──reported──► LOST, in no ISR ──the disk works──► opened again ──reported──► a follower, or elected

The broker reports it to the controller as in Kafka (AssignReplicasToDirs): a replica in a lost directory neither leads
nor counts as in sync. If no other replica could take over, the broker reports only once the disk works, so that the
records stay readable until then. It has to report: a replica that restarts with the rest of its log needs a new leader
epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from odradek.base.errors import KafkaError
from odradek.base.ids import BrokerId, DirectoryId, TopicId
from odradek.base.ports import Clock
from odradek.log.directory import LogDirectory
from odradek.log.log import Log
from odradek.metadata.image import LOST_DIRECTORY, ClusterImage, PartitionImage
from odradek.protocol.messages.p73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from odradek.replication.partition import Partition
from odradek.replication.partition_table import PartitionTable
from odradek.server.controller.controller_channel import ControllerChannel

logger = logging.getLogger(__name__)

LOOK_EVERY_MS = 500
ANSWER_TIMEOUT_MS = 5_000
PAUSE_MS_MIN = 1_000
PAUSE_MS_MAX = 10_000


class Replica(NamedTuple):
    topic_id: TopicId
    image: PartitionImage


class FailedLogs:
    def __init__(
        self,
        *,
        channel: ControllerChannel,
        broker_id: BrokerId,
        broker_epoch: int,
        directory: DirectoryId,
        clock: Clock,
        logs: LogDirectory,
        partitions: PartitionTable,
        image: Callable[[], ClusterImage],
        slow: Callable[..., Awaitable[Any]],
        on_opened: Callable[[], None],
    ) -> None:
        """`directory`: where all logs of this broker are. `slow` runs a call on it off the loop, one at a time.
        `on_opened` is called when partitions may have become leader without a metadata commit.
        """
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._directory = directory
        self._clock = clock
        self._logs = logs
        self._partitions = partitions
        self._image = image
        self._slow = slow
        self._on_opened = on_opened
        self._try_again_ms = 0
        self._pause_ms = 0

    async def look(self) -> None:
        """Called twice a second."""
        failed = [partition for partition in self._partitions.all() if partition.log.offline is not None]
        unopened = self._partitions.unopened
        if failed or unopened:
            works = await self._disk_works()
            replicas = _replicas(failed)
            replicas += [Replica(topic_id, image) for (topic_id, _), image in unopened.items() if not works]
            await self._tell(
                LOST_DIRECTORY,
                [each for each in replicas if not self._is_lost(each.image) and (works or self._has_heirs(each.image))],
            )
            if works:
                await self._bring_back(failed)
        # Not only logs reopened here: a topic change may have created a log that the previous process had lost, or a
        # report of that process may have arrived late.
        lost = [each for each in self._partitions.all() if each.log.offline is None and self._is_lost(each.image)]
        await self._tell(self._directory, _replicas(lost))

    async def _disk_works(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._try_again_ms:
            return False
        try:
            await self._slow(self._logs.probe)
        except OSError as broken:
            self._rest(broken)
            return False
        return True

    def _rest(self, broken: Exception) -> None:
        self._pause_ms = min(max(2 * self._pause_ms, PAUSE_MS_MIN), PAUSE_MS_MAX)
        self._try_again_ms = self._clock.monotonic_ms() + self._pause_ms
        logger.warning("failed logs stay offline, the disk still fails: %s", broken)

    async def _bring_back(self, failed: list[Partition]) -> None:
        trouble: Exception | None = None
        for partition in failed:
            if self._may_reopen(partition):
                try:
                    await self._reopen(partition)
                except (OSError, KafkaError) as broken:  # KafkaError: the log can be read but is invalid
                    if self._is_here(partition):  # and not deleted, its files with it
                        trouble = broken
        if self._partitions.unopened:
            self._partitions.open_again(self._image())
            self._on_opened()
        if trouble is None:
            self._pause_ms = 0
        else:
            self._rest(trouble)

    def _may_reopen(self, partition: Partition) -> bool:
        """Checked again: while others were reported or opened, its topic may have been deleted and recreated."""
        # A sync that was under way when it failed may not have ended yet.
        return self._is_here(partition) and self._is_lost(partition.image) and not partition.log.syncing.in_flight

    async def _reopen(self, partition: Partition) -> None:
        with self._logs.reserving(partition.log):
            reopened: Log = await self._slow(self._logs.reopen, partition.log, self._clock.wall_ms())
            if not self._is_here(partition) or partition.is_leader:
                # Deleted, or moved away, while it was being read.
                reopened.release()
                return
            self._partitions.succeed(partition, reopened)
        logger.warning(
            "%s is online again, offsets %d to %d", partition, reopened.log_start_offset, reopened.log_end_offset
        )

    async def _tell(self, directory: DirectoryId, replicas: list[Replica]) -> None:
        """Ignores the answer: `look` reports again until the image shows the change."""
        if not replicas:
            return
        topics: dict[bytes, AssignReplicasToDirsRequestTopicData] = {}
        for topic_id, image in replicas:
            topic = topics.setdefault(topic_id, AssignReplicasToDirsRequestTopicData(topic_id=topic_id))
            topic.partitions.append(AssignReplicasToDirsRequestPartitionData(partition_index=image.index))
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch,
            directories=[AssignReplicasToDirsRequestDirectoryData(id=directory, topics=list(topics.values()))],
        )
        try:
            await self._channel.ask(request, AssignReplicasToDirsResponse, timeout_ms=ANSWER_TIMEOUT_MS)
        except KafkaError as lost:
            logger.info("could not report the directory of %d replicas to the controller: %s", len(replicas), lost)

    def _is_here(self, partition: Partition) -> bool:
        return self._partitions.get(partition.topic, partition.index) is partition

    def _is_lost(self, image: PartitionImage | None) -> bool:
        return image is not None and image.is_lost(self._broker_id)

    def _has_heirs(self, image: PartitionImage) -> bool:
        return any(member != self._broker_id for member in image.isr)


def _replicas(partitions: list[Partition]) -> list[Replica]:
    return [Replica(each.topic_id, each.image) for each in partitions if each.image is not None]
