"""One replica of a partition on this broker: leadership, epochs, high watermark, and those who wait for it.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset

The high watermark of a leader follows the log end as far as every in-sync replica has it (`leading`), that of a
follower what its leader says, as far as it has it (`following`). A log that asks for fsync (`flush.messages`) counts as
having only what is synced: nothing is acknowledged or shown that a power cut could take.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER, NO_EPOCH, BrokerId, Offset, TopicId
from odradek.base.invariants import invariant
from odradek.log.recompression import recompressed_own
from odradek.protocol.fetch_response import FetchedPartition
from odradek.replication import safeguards
from odradek.replication.isr import IsrProposal, LiveBrokers, Propose, nobody_to_ask
from odradek.replication.leading import Leading
from odradek.replication.waiting import Callback, OffsetWaits, Reader

if TYPE_CHECKING:
    from odradek.log.appended import Appended
    from odradek.log.config import LogConfig
    from odradek.log.log import Log
    from odradek.metadata.image import PartitionImage

logger = logging.getLogger(__name__)

ALL_SYNCED = Offset(2**63 - 1)
ACKS_ALL = -1
LAG_MS_MAX = 30_000


class Partition:
    __slots__ = (
        "_brokers",
        "_committing",
        "_held_at",
        "_lag_ms_max",
        "_propose",
        "_request_sync",
        "_syncing",
        "_trimming",
        "broker_id",
        "elr",
        "high_watermark",
        "image",
        "index",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_id",
        "leading",
        "log",
        "min_isr",
        "min_isr_wanted",
        "partition_epoch",
        "readers",
        "replicas",
        "tail_readers",
        "topic",
        "topic_id",
        "unappended",
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
        brokers: LiveBrokers | None = None,
        propose: Propose = nobody_to_ask,
        lag_ms_max: int = LAG_MS_MAX,
    ) -> None:
        """`propose` is given each change of the ISR that this replica, as leader, wants; it may not answer at once."""
        self.broker_id = broker_id
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.min_isr_wanted = min_isr
        # No more than there are replicas.
        self.min_isr = min_isr
        self._brokers = brokers or LiveBrokers()
        self._propose = propose
        self._lag_ms_max = lag_ms_max
        # Never goes back, except by truncation of a follower.
        # (What was written down may be older than the last deletion of records.)
        self.high_watermark = Offset(max(log.log_start_offset, min(high_watermark, log.log_end_offset)))
        self.leader_id = NO_BROKER
        self.is_leader = False
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[BrokerId, ...] = ()
        # As committed by the controller.
        self.isr: tuple[BrokerId, ...] = ()
        # Not in sync, and known to have all that is committed: may be elected as soon as they are back (KIP-966).
        self.elr: tuple[BrokerId, ...] = ()
        # What was last applied.
        self.image: PartitionImage | None = None
        # While this replica leads others.
        self.leading: Leading | None = None
        # Batches of clients that came and are not appended yet: one that comes now must not overtake them.
        self.unappended = 0
        # Fetches to tell when the high watermark moves, in order of arrival; those of followers are told of appends.
        self.readers: dict[Reader, None] = {}
        self.tail_readers: dict[Reader, None] = {}
        self._request_sync = request_sync
        # The first offset whose fsync was asked for and has not happened.
        self._held_at = ALL_SYNCED
        self._committing = OffsetWaits()
        self._syncing = OffsetWaits()
        self._trimming = OffsetWaits()

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
        """A batch of this broker's own: a coordinator's. It is small enough to be recompressed on the event loop."""
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(self.isr) < self.min_isr:
            raise self._too_few_replicas()
        if self.log.config.codec is not None:
            batch = recompressed_own(batch, self.log.config)
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
        elif self.log.offline is not None:
            # Failed or taken away, and those who waited were told: nobody will sync it for one who comes now.
            callback(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            self._syncing.add(offset, callback)

    def when_trimmed(self, offset: int, callback: Callback) -> None:
        """Call back once nobody who is alive or eligible begins below `offset`: whoever leads next has deleted it."""
        if self.low_watermark >= offset:
            callback(ErrorCode.NONE)
        else:
            self._trimming.add(offset - 1, callback)

    @property
    def low_watermark(self) -> int:
        start = self.log.log_start_offset
        return start if self.leading is None else self.leading.low_watermark(start)

    def forget(self, callback: Callback) -> None:
        """Call back no more: whoever waited has given up."""
        self._committing.forget(callback)
        self._syncing.forget(callback)
        self._trimming.forget(callback)

    def _appended(self, appended: Appended) -> None:
        if appended.needs_sync:
            self._hold(appended.base_offset)
        self._advance()
        if self.tail_readers:
            self._wake(self.tail_readers)

    def _too_few_replicas(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self} has {len(self.isr)} in-sync replicas, min.insync.replicas is {self.min_isr}",
        )

    # Syncing, driven by the group commit

    def synced(self, end_offset: int, *, again: bool) -> None:
        """All below `end_offset` is durable. `again`: another sync was asked for since this one began."""
        # A sync that was begun before a truncation says nothing about what was written after it.
        durable = Offset(min(end_offset, self.log.recovery_point))
        self._held_at = max(self._held_at, durable) if again else ALL_SYNCED
        if self._syncing:
            # Whoever hears of it may append at once (a backlog goes on): that is not synced yet.
            self._syncing.passed(min(self._held_at, self.log.log_end_offset))
        if self.is_leader:
            # A follower's watermark is its leader's, however much of the rest is on disk here.
            self._advance()

    def sync_failed(self) -> None:
        """The log is offline now; what was held back may be lost."""
        self._give_up(ErrorCode.KAFKA_STORAGE_ERROR)

    def _hold(self, offset: int) -> None:
        self._held_at = min(self._held_at, Offset(offset))
        self._request_sync(self)

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        end_offset: int,
        *,
        whole_first_batch: bool,
        from_follower: bool = False,
    ) -> FetchedPartition:
        """Whole batches from the one that has `offset`, below `end_offset` (a watermark of this partition).

        `from_follower`: whoever reads knows that this replica may be one.
        """
        if not self.is_leader and not from_follower:
            return FetchedPartition(self.index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            error = self.epoch_error(current_leader_epoch)
            if error:
                return FetchedPartition(self.index, error)
        start = log.log_start_offset
        if not start <= offset <= log.log_end_offset:
            if not self.is_leader and offset > log.log_end_offset:
                # The leader may well have it.
                return FetchedPartition(self.index, ErrorCode.OFFSET_NOT_AVAILABLE)
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
        if current_leader_epoch == NO_EPOCH or safeguards.agrees_on_leader_epoch(
            current_leader_epoch, self.leader_epoch
        ):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    # Leadership

    def apply(self, image: PartitionImage, now_ms: int) -> None:
        was_leader, old_epoch = self.is_leader, self.leader_epoch
        invariant(image.leader_epoch >= old_epoch, f"the leader epoch of {self} went back from {old_epoch}")
        overtaken = image.partition_epoch > self.partition_epoch
        self.image = image
        self.leader_id = image.leader
        self.is_leader = image.leader == self.broker_id
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.replicas = image.replicas
        self.isr = image.isr
        self.elr = image.elr
        self.min_isr = min(self.min_isr_wanted, len(image.replicas))
        if self.is_leader:
            if not was_leader or image.leader_epoch > old_epoch:
                self._become_leader(now_ms)
            else:
                self._lead_on(now_ms, overtaken=overtaken)
            self._move_watermarks()
        elif was_leader or image.leader_epoch > old_epoch:
            if old_epoch == NO_EPOCH:
                self._hold_what_a_crash_left()
            self._become_follower(was_leader=was_leader)

    def deleted(self, code: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        self.is_leader = False
        self.leader_id = NO_BROKER
        self.leading = None
        self._give_up(code)

    def _give_up(self, code: ErrorCode) -> None:
        """Nobody may wait for this replica any more."""
        self._committing.fail(code)
        self._syncing.fail(code)
        self._trimming.fail(code)
        self._wake(self.readers)
        self._wake(self.tail_readers)

    def configure(self, log_config: LogConfig, min_isr: int) -> None:
        self.log.config = log_config
        self.min_isr_wanted = min_isr
        self.min_isr = min(min_isr, len(self.replicas)) if self.replicas else min_isr
        if self.is_leader:
            self._advance()

    def _become_leader(self, now_ms: int) -> None:
        self.log.begin_epoch(self.leader_epoch)
        self._hold_what_a_crash_left()
        # Before the first append: where an epoch begins, a follower's log must reach before it may join the ISR.
        self.leading = None
        self._lead_on(now_ms, overtaken=True)
        if len(self.replicas) > 1:
            logger.info(
                "%s: leading epoch %d from offset %d, high watermark %d, ISR %s",
                *(self, self.leader_epoch, self.log.log_end_offset, self.high_watermark, self.isr),
            )
            # Whoever follows with the epoch before must hear that it is over.
            self._wake(self.tail_readers)

    def _lead_on(self, now_ms: int, *, overtaken: bool) -> None:
        if self.leading is None:
            if len(self.replicas) > 1:
                self.leading = Leading(self, brokers=self._brokers, lag_ms_max=self._lag_ms_max, now_ms=now_ms)
        elif len(self.replicas) == 1:
            self.leading = None
        elif overtaken:
            if self.leading.proposal is not None:
                logger.info("%s: the ISR is %s", self, self.isr)
            self.leading.committed(now_ms)
        else:
            self.leading.assigned(now_ms)

    def _become_follower(self, *, was_leader: bool) -> None:
        self.leading = None
        if was_leader:
            self._give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._wake(self.readers)

    def _hold_what_a_crash_left(self) -> None:
        """In the page cache: it is not on disk yet."""
        if self.log.config.flush_messages < ALL_SYNCED and self.log.recovery_point < self.log.log_end_offset:
            self._hold(self.log.recovery_point)

    # Following

    def append_fetched(self, batches: memoryview, wall_ms: int) -> None:
        """Whole batches of the leader that continue this log."""
        log, before = self.log, self.log.log_end_offset
        try:
            log.append_as_follower(batches, wall_ms)
        finally:
            if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
                self._hold(before)

    def follow_watermarks(self, high_watermark: int, log_start_offset: int) -> None:
        """The leader's. One that was just elected may know less than this follower has heard already."""
        end = min(high_watermark, self.log.log_end_offset)
        if end > self.high_watermark:
            self._commit(end)
        start = min(log_start_offset, self.high_watermark)
        if start > self.log.log_start_offset:
            self.log.advance_log_start(start)

    def truncate_to(self, offset: int) -> None:
        """Slow. What lies above is not part of the leader's history."""
        if offset < self.high_watermark:
            logger.error(
                "%s loses what was committed: cut to %d, the high watermark is %d", self, offset, self.high_watermark
            )
        try:
            self.log.truncate_to(offset)
        finally:
            self._was_cut()

    def restart_at(self, offset: int) -> None:
        """Slow. Nothing is left, the next record has `offset`."""
        try:
            self.log.truncate_fully_and_start_at(offset)
        finally:
            self._was_cut()

    def _was_cut(self) -> None:
        """Perhaps not as far as was wanted, when the disk failed."""
        log = self.log
        self.high_watermark = Offset(max(log.log_start_offset, min(self.high_watermark, log.log_end_offset)))
        # The fetcher of the leader before may wait for a sync of what is gone: nobody would tell it.
        self._syncing.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Changes of the ISR

    def fetched_by(self, broker_id: int, broker_epoch: int, offset: int, *, log_start_offset: int, now_ms: int) -> None:
        """A follower that agrees with this leader's history up to `offset` asks for what comes next."""
        leading = self.leading
        follower = None if leading is None else leading.follower(broker_id)
        if leading is None or follower is None:
            return
        proposal = leading.fetched(
            follower, offset, log_start_offset=log_start_offset, broker_epoch=broker_epoch, now_ms=now_ms
        )
        self._move_watermarks()
        if proposal is not None:
            self._propose(self, proposal)

    def tick(self, now_ms: int) -> None:
        if self.leading is not None:
            proposal = self.leading.tick(now_ms)
            self._move_watermarks()
            if proposal is not None:
                self._propose(self, proposal)

    def brokers_changed(self, now_ms: int) -> None:
        """Some that have a replica live or died since, be it without a change of this partition."""
        if self.leading is not None:
            self.leading.brokers_changed(now_ms)
            self._move_watermarks()

    def _move_watermarks(self) -> None:
        """Both of them: followers got further, or whoever died or was moved away is waited for no longer."""
        if self._trimming:
            self._trimming.passed(self.low_watermark)
        self._advance()

    def isr_accepted(self, proposal: IsrProposal, partition_epoch: int, now_ms: int) -> None:
        """The controller's answer to a proposal. What was decided is told by the image, in its order.

        For with fewer than min.insync.replicas those who left stay eligible to lead: whoever had the ISR of that moment
        and a minimum from before would commit without them. No image comes when there was nothing to change.
        """
        leading = self.leading
        if leading is not None and leading.proposal is proposal and partition_epoch == self.partition_epoch:
            leading.committed(now_ms)
            self._advance()

    def isr_refused(self, proposal: IsrProposal, code: ErrorCode, now_ms: int) -> bool:
        """The controller's other answer, or that there was none. True: to be sent again after a while."""
        if self.leading is None or self.leading.proposal is not proposal:
            return False
        again = self.leading.refused(code, now_ms)
        logger.info("%s: the ISR %s was refused with %s", self, proposal.members, code.name)
        self._advance()
        return again

    # The high watermark

    def _advance(self) -> None:
        end = self.log.log_end_offset
        if end > self._held_at:
            end = self._held_at
        if end > self.high_watermark:
            if self.leading is not None:
                end = self.leading.committed_end(end)
                if end <= self.high_watermark:
                    return
            self._commit(end)

    def _commit(self, end_offset: int) -> None:
        self.high_watermark = Offset(end_offset)
        if self._committing:
            self._committing.passed(end_offset)
        if self.readers:
            self._wake(self.readers)

    def _wake(self, readers: dict[Reader, None]) -> None:
        for reader in list(readers):
            reader.may_read_more(self)
