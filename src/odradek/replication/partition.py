"""One replica of a partition on this broker: leadership, epochs, high watermark, and the requests that wait for it.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset

The high watermark of a leader is the log end that every in-sync replica has (`leading`). The high watermark of a
follower is that of its leader, but at most its own log end (`following`). With `flush.messages`, only synced records
count: no record is acknowledged or readable that a power cut could remove.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import NO_BROKER, NO_EPOCH, BrokerId, TopicId
from odradek.base.invariants import invariant
from odradek.log.recompression import recompressed_own
from odradek.log.verification import NOT_REQUIRED, Verification
from odradek.protocol.fetch_response import FetchedPartition
from odradek.protocol.txn_marker import MARKER_BYTES
from odradek.replication import safeguards
from odradek.replication.isolation import HIGH_WATERMARK, TXN_COMMITTED, FetchIsolation
from odradek.replication.isr import IsrProposal, LiveBrokers, Propose, nobody_to_ask
from odradek.replication.leading import Leading
from odradek.replication.traffic import TopicTraffic
from odradek.replication.waiting import Callback, OffsetWaits, Reader

if TYPE_CHECKING:
    from odradek.log.appended import Appended
    from odradek.log.config import LogConfig
    from odradek.log.log import Log
    from odradek.metadata.image import PartitionImage
    from odradek.protocol.txn_marker import TxnMarker

logger = logging.getLogger(__name__)

ALL_SYNCED = 2**63 - 1
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
        "leaders_high_watermark",
        "leading",
        "log",
        "min_isr",
        "min_isr_wanted",
        "partition_epoch",
        "readers",
        "replicas",
        "stable_readers",
        "tail_readers",
        "topic",
        "topic_id",
        "traffic",
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
        high_watermark: int,
        min_isr: int,
        request_sync: Callable[[Partition], None],
        brokers: LiveBrokers | None = None,
        propose: Propose = nobody_to_ask,
        lag_ms_max: int = LAG_MS_MAX,
        traffic: TopicTraffic | None = None,
    ) -> None:
        """`propose` gets each ISR change that this replica wants as leader. It must not reply synchronously."""
        self.broker_id = broker_id
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        # Counts for metrics, if there are any.
        self.traffic = traffic
        self.log = log
        self.min_isr_wanted = min_isr
        # At most the number of replicas.
        self.min_isr = min_isr
        self._brokers = brokers or LiveBrokers()
        self._propose = propose
        self._lag_ms_max = lag_ms_max
        # Never moves back, except when a follower is truncated.
        # (The checkpoint may be older than the last deletion of records.)
        self.high_watermark = max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        # On a follower: the last high watermark that its leader reported.
        self.leaders_high_watermark = self.high_watermark
        self.leader_id = NO_BROKER
        self.is_leader = False
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[BrokerId, ...] = ()
        # As committed by the controller.
        self.isr: tuple[BrokerId, ...] = ()
        # Not in sync, but known to have all committed records: may be elected when they are back (KIP-966).
        self.elr: tuple[BrokerId, ...] = ()
        # The image applied last.
        self.image: PartitionImage | None = None
        # While this replica leads others.
        self.leading: Leading | None = None
        # Received client batches that are not appended yet: a later batch must not overtake them.
        self.unappended = 0
        # Fetches that wait for the high watermark, in order of arrival. Fetches with read_committed wait for the last
        # stable offset, those of followers for appends.
        self.readers: dict[Reader, None] = {}
        self.stable_readers: dict[Reader, None] = {}
        self.tail_readers: dict[Reader, None] = {}
        self._request_sync = request_sync
        # The first offset whose fsync was requested but is not done.
        self._held_at = ALL_SYNCED
        self._committing = OffsetWaits()
        self._syncing = OffsetWaits()
        self._trimming = OffsetWaits()

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.high_watermark)

    # Writing

    def append(self, batch: memoryview, acks: int, wall_ms: int, verification: Verification | None = None) -> Appended:
        """Append one batch of a client. The view may be modified and is not kept.

        `verification`: of the transaction that the request belongs to, see `begin_verification`.
        """
        traffic = self.traffic
        if traffic is not None:
            traffic.produce_requests.count += 1
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == ACKS_ALL and len(self.isr) < self.min_isr:
            raise self._too_few_replicas()
        appended = self.log.appending.as_leader(batch, self.leader_epoch, wall_ms, verification)
        self._appended(appended, len(batch))
        return appended

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, adds_partition: bool, wall_ms: int
    ) -> Verification:
        """Ask the transaction coordinator before the append, unless the result is OPEN_HERE.

        Pass the result to the append. `adds_partition`: the question also adds the partition to the transaction.
        """
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.log.known_producers(wall_ms).begin_verification(
            producer_id, epoch, sequence, adds_partition=adds_partition, wall_ms=wall_ms
        )

    def append_internal(self, batch: bytearray, wall_ms: int, verification: Verification = NOT_REQUIRED) -> Appended:
        """Append a batch that a coordinator wrote. It is small enough to recompress on the event loop."""
        self._require_quorum_to_append()
        if self.log.config.codec is not None:
            batch = recompressed_own(batch, self.log.config)
        appended = self.log.appending.trusted(batch, self.leader_epoch, wall_ms, verification)
        self._appended(appended, len(batch))
        return appended

    def append_marker(self, marker: TxnMarker, wall_ms: int) -> Appended:
        """Append the end of a transaction, as its coordinator decided."""
        self._require_quorum_to_append()
        appended = self.log.appending.marker(marker, self.leader_epoch, wall_ms)
        self._appended(appended, MARKER_BYTES)
        return appended

    def _require_quorum_to_append(self) -> None:
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(self.isr) < self.min_isr:
            raise self._too_few_replicas()

    def is_acknowledged(self, offset: int, acks: int) -> bool:
        return offset < (self.high_watermark if acks == ACKS_ALL else self._held_at)

    def is_committed(self, offset: int) -> bool:
        return offset < self.high_watermark

    def when_committed(self, offset: int, callback: Callback) -> None:
        """Call back when the high watermark has passed `offset`, or with an error when it will not."""
        if offset < self.high_watermark:
            callback(ErrorCode.NONE)
        else:
            self._committing.add(offset, callback)

    def is_synced(self, offset: int) -> bool:
        """Whether `offset` is as durable here as the topic requires."""
        return offset < self._held_at

    def when_synced(self, offset: int, callback: Callback) -> None:
        if offset < self._held_at:
            callback(ErrorCode.NONE)
        elif self.log.offline is not None:
            # The log failed or was deleted. No sync will come any more; earlier callbacks got this error, too.
            callback(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            self._syncing.add(offset, callback)

    def when_trimmed(self, offset: int, callback: Callback) -> None:
        """Call back when no live or eligible replica begins below `offset`: then every next leader has deleted it."""
        if self.low_watermark >= offset:
            callback(ErrorCode.NONE)
        else:
            self._trimming.add(offset - 1, callback)

    @property
    def low_watermark(self) -> int:
        start = self.log.log_start_offset
        return start if self.leading is None else self.leading.low_watermark(start)

    def forget(self, callback: Callback) -> None:
        """Do not call back any more: the request was given up."""
        self._committing.forget(callback)
        self._syncing.forget(callback)
        self._trimming.forget(callback)

    def _appended(self, appended: Appended, size: int) -> None:
        traffic = self.traffic
        if traffic is not None:
            traffic.messages_in.count += appended.last_offset - appended.base_offset + 1
            traffic.bytes_in.count += size
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
        """All below `end_offset` is durable. `again`: another sync was requested since this one began."""
        # A sync that began before a truncation does not cover records written after it.
        durable = min(end_offset, self.log.recovery_point)
        self._held_at = max(self._held_at, durable) if again else ALL_SYNCED
        if self._syncing.waits:
            # A callback may append at once, when a backlog continues. Those records are not synced yet.
            self._syncing.passed(min(self._held_at, self.log.log_end_offset))
        if self.is_leader:
            # Only for a leader: a follower takes its high watermark from its leader.
            self._advance()

    def sync_failed(self) -> None:
        """The log is offline now. Records that waited for the sync may be lost."""
        self._give_up(ErrorCode.KAFKA_STORAGE_ERROR)

    def _hold(self, offset: int) -> None:
        self._held_at = min(self._held_at, offset)
        self._request_sync(self)

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        isolation: FetchIsolation,
        *,
        whole_first_batch: bool,
        from_follower: bool = False,
    ) -> FetchedPartition:
        """Whole batches that `isolation` allows, beginning with the batch that holds `offset`.

        `from_follower`: the reader knows that this replica may be a follower.
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
                # The leader may have it.
                return FetchedPartition(self.index, ErrorCode.OFFSET_NOT_AVAILABLE)
            return FetchedPartition(self.index, ErrorCode.OFFSET_OUT_OF_RANGE)
        stable = log.last_stable_offset(self.high_watermark)
        aborted: list[tuple[int, int]] | None = None
        try:
            if isolation is TXN_COMMITTED:
                region, transactions = log.read_committed(offset, max_bytes, stable, whole_first_batch)
                aborted = [(one.producer_id, one.first_offset) for one in transactions]
            else:
                end = self.high_watermark if isolation is HIGH_WATERMARK else log.log_end_offset
                region = log.read(offset, max_bytes, end, whole_first_batch)
        except KafkaError as refusal:
            return FetchedPartition(self.index, refusal.code)
        except OSError as broken:
            logger.warning("%s cannot be read at offset %d: %s", self, offset, broken)
            return FetchedPartition(self.index, ErrorCode.KAFKA_STORAGE_ERROR)
        return FetchedPartition(self.index, 0, self.high_watermark, stable, start, region, aborted_transactions=aborted)

    def visible_end(self, isolation: FetchIsolation) -> int:
        """Readers see the records below this offset."""
        if isolation is HIGH_WATERMARK:
            return self.high_watermark
        if isolation is TXN_COMMITTED:
            return self.last_stable_offset
        return self.log.log_end_offset

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """The error for a client whose leader epoch differs from ours. -1: the client sent none."""
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
        invariant(image.leader_epoch >= old_epoch, f"the leader epoch of {self} fell below {old_epoch}")
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
        """Fail everything that waits for this replica."""
        self._committing.fail(code)
        self._syncing.fail(code)
        self._trimming.fail(code)
        self._wake(self.readers)
        self._wake(self.stable_readers)
        self._wake(self.tail_readers)

    def configure(self, log_config: LogConfig, min_isr: int) -> None:
        self.log.configure(log_config)
        self.min_isr_wanted = min_isr
        self.min_isr = min(min_isr, len(self.replicas)) if self.replicas else min_isr
        if self.is_leader:
            self._advance()

    def _become_leader(self, now_ms: int) -> None:
        self.log.appending.begin_epoch(self.leader_epoch)
        self._hold_what_a_crash_left()
        # Before the first append: a follower may join the ISR only when its log reaches the start of the epoch.
        self.leading = None
        self._lead_on(now_ms, overtaken=True)
        if len(self.replicas) > 1:
            logger.info(
                "%s: leading epoch %d from offset %d, high watermark %d, ISR %s",
                *(self, self.leader_epoch, self.log.log_end_offset, self.high_watermark, self.isr),
            )
            # Waiting fetches of followers have the old epoch and must learn of the new one.
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
            self._wake(self.stable_readers)

    def _hold_what_a_crash_left(self) -> None:
        """Records above the recovery point may be only in the page cache."""
        if self.log.config.flush_messages < ALL_SYNCED and self.log.recovery_point < self.log.log_end_offset:
            self._hold(self.log.recovery_point)

    # Following

    def append_fetched(self, batches: memoryview, wall_ms: int) -> None:
        """Append whole batches of the leader that continue this log."""
        log, before = self.log, self.log.log_end_offset
        if self.traffic is not None:
            reassigned = self.image is not None and self.broker_id in self.image.adding
            self.traffic.replicated(len(batches), reassigned=reassigned)
        try:
            log.appending.as_follower(batches, wall_ms)
        finally:
            if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
                self._hold(before)

    def follow_watermarks(self, high_watermark: int, log_start_offset: int) -> None:
        """Take the leader's watermarks. A new leader may have a lower high watermark than this follower."""
        self.leaders_high_watermark = high_watermark
        end = min(high_watermark, self.log.log_end_offset)
        if end > self.high_watermark:
            self._commit(end)
        start = min(log_start_offset, self.high_watermark)
        if start > self.log.log_start_offset:
            self.log.advance_log_start(start)

    def truncate_to(self, offset: int) -> None:
        """Slow. The records above `offset` are not in the leader's log."""
        if offset < self.high_watermark:
            logger.error(
                "%s loses committed records: truncated to %d, the high watermark is %d",
                self,
                offset,
                self.high_watermark,
            )
        try:
            self.log.truncation.to(offset)
        finally:
            self._was_cut()

    def restart_at(self, offset: int) -> None:
        """Slow. Delete everything. The next record gets `offset`."""
        try:
            self.log.truncation.fully_and_start_at(offset)
        finally:
            self._was_cut()

    def _was_cut(self) -> None:
        """Also called after a disk error, when the log may not be truncated completely."""
        log = self.log
        self.high_watermark = max(log.log_start_offset, min(self.high_watermark, log.log_end_offset))
        # The fetcher of the previous leader may wait for a sync of removed records, which would never come.
        self._syncing.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @property
    def behind(self) -> int:
        """How many committed records this follower does not have, as far as it knows."""
        return max(0, self.leaders_high_watermark - self.log.log_end_offset)

    # Changes of the ISR

    def fetched_by(self, broker_id: int, broker_epoch: int, offset: int, *, log_start_offset: int, now_ms: int) -> None:
        """A follower that has the same records as this leader up to `offset` fetches from there."""
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
        """Brokers with a replica were fenced or unfenced, maybe without a change of this partition."""
        if self.leading is not None:
            self.leading.brokers_changed(now_ms)
            self._move_watermarks()

    def _move_watermarks(self) -> None:
        """Advance both watermarks: followers progressed, or a replica that died or was moved no longer counts."""
        if self._trimming.waits:
            self._trimming.passed(self.low_watermark)
        self._advance()

    def isr_accepted(self, proposal: IsrProposal, partition_epoch: int, now_ms: int) -> None:
        """The controller accepted a proposal. The change itself takes effect with the image, in commit order.

        With fewer than min.insync.replicas, removed replicas stay eligible to lead. A leader that combined the new ISR
        with an older min.insync.replicas would commit records without them. No image comes if nothing changed.
        """
        leading = self.leading
        if leading is not None and leading.proposal is proposal and partition_epoch == self.partition_epoch:
            leading.committed(now_ms)
            self._advance()

    def isr_refused(self, proposal: IsrProposal, code: ErrorCode, now_ms: int) -> bool:
        """The controller refused a proposal or did not reply. True: retry after a backoff."""
        if self.leading is None or self.leading.proposal is not proposal:
            return False
        again = self.leading.refused(code, now_ms)
        logger.info("%s: the controller refused the ISR %s with %s", self, proposal.members, code.name)
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
        if self.stable_readers:
            stable = self.last_stable_offset
            self.high_watermark = end_offset
            if self.last_stable_offset > stable:
                self._wake(self.stable_readers)
        self.high_watermark = end_offset
        if self._committing.waits:
            self._committing.passed(end_offset)
        if self.readers:
            self._wake(self.readers)

    def _wake(self, readers: dict[Reader, None]) -> None:
        for reader in list(readers):
            reader.may_read_more(self)
