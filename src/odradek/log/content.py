"""What the parts of one log share: its segments and offsets, its settings, and whether its disk has failed."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicId, TopicPartition
from odradek.log import safeguards
from odradek.log.config import LogConfig
from odradek.log.durability import Durability
from odradek.log.folder import Folder
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.producer_memory import ProducerMemory
from odradek.log.producers import Producers
from odradek.log.segment import UNARMED, Segment
from odradek.log.segments import Segments
from odradek.log.transaction_index import TransactionIndex, TransactionIndexBroken
from odradek.log.transactions import AbortedTransaction

story = logging.getLogger(__name__)

T = TypeVar("T")


class Content:
    __slots__ = (
        "cleaned_until",
        "config",
        "durability",
        "failure",
        "folder",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "name",
        "persist_checkpoints",
        "producers",
        "segments",
        "topic_id",
        "topic_partition",
        "written_epoch",
    )

    def __init__(
        self,
        folder: Folder,
        topic_partition: TopicPartition,
        config: LogConfig,
        segments: Segments,
        *,
        topic_id: TopicId | None,
        log_start_offset: int,
        log_end_offset: int,
        durability: Durability,
        leader_epochs: LeaderEpochs,
        snapshots: list[int],
        producers: Producers | None,
        persist_checkpoints: Callable[[], None],
        cleaned_until: int | None,
    ) -> None:
        self.folder = folder
        self.topic_partition = topic_partition
        self.name = str(topic_partition)
        self.topic_id = topic_id
        self.config = config  # change it with `configure`
        self.segments = segments
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.durability = durability
        self.leader_epochs = leader_epochs
        self.written_epoch = -1  # of the last append: it is in the epoch cache already
        self.producers = ProducerMemory(folder, segments, durability, snapshots=snapshots, known=producers)
        self.persist_checkpoints = persist_checkpoints
        self.failure: str | None = None  # why nothing more can be appended
        # Everything before it was compacted. None: this log never had gaps in its offsets. It is above the recovery
        # point only when that was lost; then only this value says that a gap is not data loss.
        self.cleaned_until = cleaned_until if cleaned_until is None else min(cleaned_until, log_end_offset)

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self.segments.active.roll_bytes = UNARMED

    @property
    def recovery_point(self) -> int:
        """Everything before it is durable."""
        return self.durability.recovery_point

    # --- failing

    def fail(self, broken: OSError | KafkaError) -> KafkaError:
        """The content of the file is unknown now, so the log goes offline. Bytes after the last batch are removed."""
        if self.failure is None:  # if set: it failed before, or was deleted and closed during the sync
            if safeguards.stays_offline_after_failure():
                self.failure = str(broken)
                story.error("%s is offline and accepts no records until it is reopened: %s", self.name, broken)
            with contextlib.suppress(OSError):
                self.segments.active.trim()
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name}: {broken}")

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as broken:
            raise self.fail(broken) from broken

    def refuse_if_offline(self) -> None:
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} is offline: {self.failure}")

    # --- offsets

    def advance_log_start(self, offset: int) -> None:
        """Stop serving records before `offset`, which may be inside a batch. Retention removes their segments."""
        if offset > self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is beyond the end of {self.name}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    # --- producers and transactions

    def has_transaction_idle_since(self, wall_ms: int) -> bool:
        """Whether the oldest open transaction has no record after that time. False while that was not read yet."""
        if not self.producers.transactions:
            return False
        return self.producers.restored(self.log_end_offset).has_transaction_idle_since(wall_ms)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Everything before it is decided: committed, aborted, or written outside of transactions."""
        transactions = self.producers.transactions
        if transactions is None:
            transactions = self.producers.restored_transactions(self.log_end_offset)
        if transactions.unstable_from >= high_watermark:
            return high_watermark
        unstable = transactions.first_unstable(high_watermark)
        if unstable >= high_watermark:
            return high_watermark
        return max(safeguards.holds_back_open_transactions(unstable, high_watermark), self.log_start_offset)

    def note_aborted(self, aborted: AbortedTransaction | None) -> None:
        """Enter a transaction whose marker was just written to the active segment into the index."""
        aborted = safeguards.indexes_aborted(aborted)
        if aborted is not None:
            segment = self.segments.active
            try:
                with self.failing():
                    self._index_aborted(segment, aborted)
            except BaseException:
                # Readers would take its records for committed. The index is complete once the log is opened again.
                if self.producers.transactions is not None:
                    self.producers.transactions.hold_back(aborted.first_offset)
                raise

    def _index_aborted(self, segment: Segment, aborted: AbortedTransaction) -> None:
        try:
            segment.aborted.add(aborted)
        except TransactionIndexBroken as broken:
            self._rebuild_aborted(segment, broken)  # from the batches, with this marker

    def trusting_aborted(self, segment: Segment, use: Callable[[TransactionIndex], T]) -> T:
        """Trust the index of aborted transactions until it is found broken, then rebuild it, which is slow and rare."""
        try:
            return use(segment.aborted)
        except TransactionIndexBroken as broken:
            self._rebuild_aborted(segment, broken)
        return use(segment.aborted)

    def _rebuild_aborted(self, segment: Segment, broken: TransactionIndexBroken) -> None:
        story.warning("%s: rebuilding the index of aborted transactions: %s", self.name, broken)
        self.producers.rebuild_aborted(segment)

    def known_producers(self, wall_ms: int) -> Producers:
        memory = self.producers
        if memory.known is None:
            memory.restored(self.log_end_offset).expire(wall_ms, self.config.producer_id_expiration_ms)
        return memory.restored(self.log_end_offset)

    def expire_producers(self, wall_ms: int) -> None:
        if self.producers.known is not None:
            self.producers.known.expire(wall_ms, self.config.producer_id_expiration_ms)
