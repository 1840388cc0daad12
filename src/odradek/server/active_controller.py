"""The active controller: takes decisions one after the other, makes them durable in groups, publishes them in order.

A decision sees every decision taken before it, committed or not. Its records are appended at once; one fsync at a time
runs off the loop and whatever is appended meanwhile is the next group. Only what the quorum has committed reaches
`image`, the listeners and the reply, in that order. When the log fails, nothing is acknowledged and the node stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import LeaderEpoch, Offset
from odradek.base.invariants import invariant
from odradek.base.limits import (
    decision_sentence_chars_max,
    metadata_batch_bytes_max,
    metadata_records_per_decision_max,
)
from odradek.base.ports import Clock, Disk, Spawner
from odradek.controller.activation import activate
from odradek.controller.decision import Decision
from odradek.log.log import Log
from odradek.metadata.batches import control_batch, metadata_batch
from odradek.metadata.image import ClusterImage, ImageDelta
from odradek.metadata.metadata_log import load_metadata, write_election
from odradek.protocol.schema import Message
from odradek.quorum.effects import AppendEpochStart, Effect, HighWatermarkAdvanced, PersistElection
from odradek.quorum.events import Event, LogSynced, ShuttingDown, Started
from odradek.quorum.quorum import Quorum, Role
from odradek.quorum.timing import Now
from odradek.quorum.voters import Voter

R = TypeVar("R")
Listener = Callable[[ClusterImage, ImageDelta], None]

_log = logging.getLogger(__name__)


class _Uncommitted:
    """One batch of the metadata log, what is true after it, and who waits for it."""

    __slots__ = ("delta", "image", "waiting")

    def __init__(self, image: ClusterImage, delta: ImageDelta) -> None:
        self.image = image
        self.delta = delta
        self.waiting: list[tuple[asyncio.Future[Any], Any]] = []


class _Facts:
    """The metadata log as the quorum sees it."""

    oldest_snapshot = None
    newest_snapshot = None

    def __init__(self) -> None:
        self._log: Log

    def opened(self, log: Log, epoch: LeaderEpoch) -> None:
        self._log = log
        # Of the snapshot while the log is empty.
        self._first_epoch = epoch

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        return max(self._first_epoch, self._log.leader_epochs.latest)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        return self._log.end_offset_for_epoch(leader_epoch)


class ActiveController:
    def __init__(self, *, voter: Voter, cluster_id: str, disk: Disk, clock: Clock, spawner: Spawner) -> None:
        self._disk = disk
        self._clock = clock
        self._spawner = spawner
        self._voter = voter
        self._facts = _Facts()
        self._quorum = Quorum(voter, self._facts, cluster_id=cluster_id)
        self._log: Log
        # What is committed. Empty until `start` returns.
        self.image = ClusterImage(cluster_id=cluster_id)
        # What will be committed: `image` and every batch in `_uncommitted` after it.
        self._speculative = self.image
        self._uncommitted: deque[_Uncommitted] = deque()
        self._listeners: list[Listener] = []
        self._committing: asyncio.Task[None] | None = None
        self._accepting = False

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self._quorum.leader_epoch

    def subscribe(self, listener: Listener) -> None:
        """Called for each commit, in order, before its reply leaves. The first call of all brings the whole image."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Load the log, lead the next epoch, write what a new leader owes the log; returns once that is committed."""
        loaded = await self._spawner.blocking(load_metadata, self._disk, self.image, self._voter, self._clock.wall_ms())
        self._log = loaded.log
        self._speculative = loaded.image
        self._facts.opened(loaded.log, loaded.image.epoch)
        started = Started(election=loaded.election, voters=loaded.voters, voters_in_log=loaded.voters_in_log)
        for effect in self._step(started):
            match effect:
                case PersistElection():
                    await self._spawner.blocking(write_election, self._disk, effect.election)
                case AppendEpochStart():
                    self._append_epoch_start(effect)
        await self._propose(activate(self._speculative, loaded.bootstrap))
        self._accepting = True

    def submit(self, decide: Callable[[ClusterImage], Decision[R]]) -> Awaitable[R]:
        """Decides now, answers once committed. What `decide` raises is raised here: nothing was written then."""
        if not self._accepting:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This controller is not active.")
        return self._propose(decide(self._speculative))

    async def stop(self) -> None:
        """Decisions taken are still committed and answered; then the log is closed."""
        self._accepting = False
        while self._committing is not None:
            await asyncio.wait([self._committing])
        if self._quorum.role is Role.LEADER:
            self._step(ShuttingDown())
            await self._spawner.blocking(self._log.close)

    def _step(self, event: Event) -> list[Effect]:
        return self._quorum.step(event, Now(self._clock.monotonic_ms(), chance=0.0))

    def _propose(self, decision: Decision[R]) -> asyncio.Future[R]:
        for records in _batches(decision):
            self._append(records)
        if decision.sentence:
            _log.info("%s", decision.sentence[:decision_sentence_chars_max])
        reply: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        if self._uncommitted:
            # A decision without records still rests on the uncommitted ones it saw.
            self._uncommitted[-1].waiting.append((reply, decision.response))
        else:
            reply.set_result(decision.response)
        return reply

    def _append(self, records: Sequence[Message]) -> None:
        end = Offset(self._speculative.offset + len(records))
        # Replayed before it is written: a record that the image refuses must not reach the log.
        image, delta = self._speculative.replay(records, end, self.leader_epoch)
        batch = metadata_batch(records, self._clock.wall_ms())
        if len(batch) > metadata_batch_bytes_max:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "The request changes too much at once.")
        self._write(batch, image, delta)

    def _append_epoch_start(self, effect: AppendEpochStart) -> None:
        end = Offset(self._speculative.offset + len(effect.records))
        image = self._speculative.passed(end, effect.leader_epoch)
        # The first commit of a new leader commits all that was in the log before.
        self._write(control_batch(effect.records, self._clock.wall_ms()), image, image.as_delta())
        _log.info(
            "node %d leads the metadata log in epoch %d: it is the only voter",
            self._quorum.election.leader_id,
            effect.leader_epoch,
        )

    def _write(self, batch: bytearray, image: ClusterImage, delta: ImageDelta) -> None:
        try:
            appended = self._log.append_trusted(batch, self.leader_epoch, self._clock.wall_ms())
        except (OSError, KafkaError) as failed:
            self._fail(failed)
            self._spawner.spawn("metadata log", _stop_node(failed))
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "The metadata log failed.") from failed
        invariant(appended.last_offset == image.offset, "the metadata log and the image count differently")
        self._speculative = image
        self._uncommitted.append(_Uncommitted(image, delta))
        if self._committing is None:
            self._committing = self._spawner.spawn("metadata commit", self._commit_appended())

    async def _commit_appended(self) -> None:
        try:
            while self._uncommitted:
                work = self._log.begin_sync()
                await self._spawner.blocking(work.run)
                self._log.finish_sync(work)
                for effect in self._step(LogSynced(Offset(work.offset))):
                    invariant(isinstance(effect, HighWatermarkAdvanced), f"a sync leads to {effect}")
                    self._commit(self._quorum.high_watermark)
        except (OSError, KafkaError) as failed:
            self._fail(failed)
            raise
        finally:
            self._committing = None

    def _commit(self, high_watermark: Offset) -> None:
        while self._uncommitted and self._uncommitted[0].image.offset < high_watermark:
            committed = self._uncommitted.popleft()
            self.image = committed.image
            for listener in self._listeners:
                listener(committed.image, committed.delta)
            for reply, response in committed.waiting:
                if not reply.done():
                    reply.set_result(response)

    def _fail(self, failed: Exception) -> None:
        """What is in the log may or may not survive: nobody gets an answer, and the node stops."""
        _log.critical("the metadata log failed, the controller stops: %s", failed)
        self._accepting = False
        while self._uncommitted:
            for reply, _ in self._uncommitted.popleft().waiting:
                if not reply.done():
                    reply.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, "The metadata log failed."))


async def _stop_node(failed: Exception) -> None:
    raise failed


def _batches(decision: Decision[R]) -> list[Sequence[Message]]:
    records, most = decision.records, metadata_records_per_decision_max
    if decision.atomic and len(records) > most:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{len(records)} metadata records are too many for one request.")
    return [records[start : start + most] for start in range(0, len(records), most)]
