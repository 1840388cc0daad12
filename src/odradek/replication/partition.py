"""One replica of a partition on this broker: leadership, epochs, high watermark, and those who wait for it.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset

The high watermark follows the log end as far as every in-sync replica has it. A log that asks for fsync
(`flush.messages`) counts as having only what is synced: nothing is acknowledged or shown that a power cut could take.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER, NO_EPOCH, BrokerId, Offset, TopicId
from odradek.base.invariants import invariant
from odradek.protocol.fetch_response import FetchedPartition
from odradek.replication.waiting import Callback, OffsetWaits, Reader

if TYPE_CHECKING:
    from odradek.log.appended import Appended
    from odradek.log.config import LogConfig
    from odradek.log.log import Log
    from odradek.metadata.image import PartitionImage

logger = logging.getLogger(__name__)

ALL_SYNCED = Offset(2**63 - 1)
ACKS_ALL = -1


class Partition:
    __slots__ = (
        "_broker_id",
        "_committing",
        "_held_at",
        "_request_sync",
        "_syncing",
        "high_watermark",
        "index",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_id",
        "log",
        "min_isr",
        "partition_epoch",
        "readers",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        topic: str,
        index: int,
        topic_id: TopicId,
        log: Log,
        high_watermark: Offset,
        min_isr: int,
        request_sync: Callable[[Partition], None],
    ) -> None:
        self._broker_id = broker_id
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.min_isr = min_isr
        # Never goes back, except by truncation of a follower.
        # (What was written down may be older than the last deletion of records.)
        self.high_watermark = Offset(max(log.log_start_offset, min(high_watermark, log.log_end_offset)))
        self.leader_id = NO_BROKER
        self.is_leader = False
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.isr: tuple[BrokerId, ...] = ()
        # Fetches to tell when the high watermark moves, in order of arrival.
        self.readers: dict[Reader, None] = {}
        self._request_sync = request_sync
        # The first offset whose fsync was asked for and has not happened.
        self._held_at = ALL_SYNCED
        self._committing = OffsetWaits()
        self._syncing = OffsetWaits()

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def last_stable_offset(self) -> Offset:
        return self.high_watermark

    # Writing

    def append(self, batch: memoryview, acks: int, wall_ms: int) -> Appended:
        """One batch of a client. The view may be written to and is not kept."""
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ACKS_ALL and len(self.isr) < self.min_isr:
            raise self._too_few_replicas()
        appended = self.log.append_as_leader(batch, self.leader_epoch, wall_ms)
        self._appended(appended)
        return appended

    def append_internal(self, batch: bytearray, wall_ms: int) -> Appended:
        """A batch of this broker's own: a coordinator's."""
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(self.isr) < self.min_isr:
            raise self._too_few_replicas()
        appended = self.log.append_trusted(batch, self.leader_epoch, wall_ms)
        self._appended(appended)
        return appended

    def is_committed(self, offset: int) -> bool:
        return offset < self.high_watermark

    def when_committed(self, offset: int, callback: Callback) -> None:
        """Call back once the high watermark has passed `offset`, or with the reason why it will not."""
        if offset < self.high_watermark:
            callback(ErrorCode.NONE)
        else:
            self._committing.add(offset, callback)

    def is_synced(self, offset: int) -> bool:
        """Whether this replica has `offset` as durably as its topic asks for."""
        return offset < self._held_at

    def when_synced(self, offset: int, callback: Callback) -> None:
        if offset < self._held_at:
            callback(ErrorCode.NONE)
        else:
            self._syncing.add(offset, callback)

    def forget(self, callback: Callback) -> None:
        """Call back no more: whoever waited has given up."""
        self._committing.forget(callback)
        self._syncing.forget(callback)

    def _appended(self, appended: Appended) -> None:
        if appended.needs_sync:
            self._hold(appended.base_offset)
        self._advance()

    def _too_few_replicas(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self} has {len(self.isr)} in-sync replicas, min.insync.replicas is {self.min_isr}",
        )

    # Syncing, driven by the group commit

    def synced(self, end_offset: int, *, again: bool) -> None:
        """All below `end_offset` is durable. `again`: another sync was asked for since this one began."""
        self._held_at = max(self._held_at, Offset(end_offset)) if again else ALL_SYNCED
        if self._syncing:
            # Whoever hears of it may append at once (a backlog goes on): that is not synced yet.
            self._syncing.passed(min(self._held_at, self.log.log_end_offset))
        self._advance()

    def sync_failed(self) -> None:
        """The log is offline now; what was held back may be lost."""
        self._give_up(ErrorCode.KAFKA_STORAGE_ERROR)

    def _hold(self, offset: int) -> None:
        self._held_at = min(self._held_at, Offset(offset))
        self._request_sync(self)

    # Reading

    def read(
        self, offset: int, max_bytes: int, current_leader_epoch: int, end_offset: int, *, whole_first_batch: bool
    ) -> FetchedPartition:
        """Whole batches from the one that has `offset`, below `end_offset` (a watermark of this partition)."""
        log = self.log
        if not self.is_leader:
            return FetchedPartition(self.index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            return FetchedPartition(self.index, self.epoch_error(current_leader_epoch))
        start = log.log_start_offset
        if not start <= offset <= log.log_end_offset:
            return FetchedPartition(self.index, ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            region = log.read(offset, max_bytes, end_offset, whole_first_batch) if offset < end_offset else None
        except KafkaError as refusal:
            return FetchedPartition(self.index, refusal.code)
        except OSError as broken:
            logger.warning("%s cannot be read at offset %d: %s", self, offset, broken)
            return FetchedPartition(self.index, ErrorCode.KAFKA_STORAGE_ERROR)
        return FetchedPartition(self.index, 0, self.high_watermark, self.last_stable_offset, start, region)

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """What a client is told whose idea of the leader epoch (-1: none) differs from ours."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    # Leadership

    def apply(self, image: PartitionImage) -> None:
        was_leader, old_epoch = self.is_leader, self.leader_epoch
        invariant(image.leader_epoch >= old_epoch, f"the leader epoch of {self} went back from {old_epoch}")
        self.leader_id = image.leader
        self.is_leader = image.leader == self._broker_id
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.isr = image.isr
        if self.is_leader:
            if not was_leader or image.leader_epoch > old_epoch:
                self._become_leader()
            self._advance()
        elif was_leader:
            self._give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def deleted(self) -> None:
        self.is_leader = False
        self._give_up(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _give_up(self, code: ErrorCode) -> None:
        """Nobody may wait for this replica any more."""
        self._committing.fail(code)
        self._syncing.fail(code)
        self._wake_readers()

    def configure(self, log_config: LogConfig, min_isr: int) -> None:
        self.log.config = log_config
        self.min_isr = min_isr

    def _become_leader(self) -> None:
        self.log.begin_epoch(self.leader_epoch)
        if self.log.config.flush_messages < ALL_SYNCED and self.log.recovery_point < self.log.log_end_offset:
            # What a crash left in the page cache is not on disk yet.
            self._hold(self.log.recovery_point)

    # The high watermark

    def _advance(self) -> None:
        end = self.log.log_end_offset
        if end > self._held_at:
            end = self._held_at
        if end > self.high_watermark:
            self.high_watermark = Offset(end)
            if self._committing:
                self._committing.passed(end)
            if self.readers:
                self._wake_readers()

    def _wake_readers(self) -> None:
        for reader in list(self.readers):
            reader.may_read_more(self)
