"""The active controller: while this node leads the metadata quorum, it decides; otherwise it refuses.

A decision sees every decision taken before it, committed or not. Its records are appended at once. One fsync at a time
runs off the loop; records appended meanwhile are in the next one. Only committed records reach the image, the listeners
and the reply, in that order. A deposed leader does not know whether its pending decisions will be committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from odradek.base.errors import ErrorCode, KafkaError, NotController
from odradek.base.ids import BrokerId, Offset
from odradek.base.limits import (
    decision_sentence_chars_max,
    metadata_records_per_decision_max,
)
from odradek.base.ports import Clock, Spawner
from odradek.controller.activation import activate
from odradek.controller.balance import balance_interval_ms, balance_leaders
from odradek.controller.decision import Decision
from odradek.controller.elections import elected_outside_isr
from odradek.controller.heartbeats import Heartbeats
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import ClusterImage
from odradek.protocol.schema import Message
from odradek.server.quorum.metadata_quorum import MetadataQuorum

R = TypeVar("R")

_log = logging.getLogger(__name__)

# A live broker that lost its connection to the controller sends a heartbeat well before this.
SUSPICION_MS = 1_000
# Partitions in one warning.
NAMED_MAX = 10


class ActiveController:
    def __init__(self, quorum: MetadataQuorum, config: BrokerConfig, clock: Clock, spawner: Spawner) -> None:
        self._quorum = quorum
        self._config = config
        self._clock = clock
        self._spawner = spawner
        self._active = False
        # Called with the nanoseconds that a decision took.
        self.on_decided: Callable[[int], None] = lambda _: None
        self.heartbeats = Heartbeats(config, suspicion_ms=min(SUSPICION_MS, config.broker_session_timeout_ms))
        self._session_watch: asyncio.TimerHandle | None = None
        self._balancing: asyncio.TimerHandle | None = None
        quorum.on_elected = self._elected
        quorum.on_deposed = self._deposed
        quorum.others.on_unreachable = self._unreachable

    @property
    def is_active(self) -> bool:
        return self._active

    def submit(self, decide: Callable[[ClusterImage], Decision[R]]) -> Awaitable[R]:
        """Decides now, answers once committed. An exception from `decide` is raised here; then nothing was written."""
        if not self._active:
            raise NotController(ErrorCode.NOT_CONTROLLER, "This controller is not active.")
        began_ns = self._clock.monotonic_ns()
        reply = self._propose(decide(self._quorum.feed.ahead))
        self.on_decided(self._clock.monotonic_ns() - began_ns)
        return reply

    def stop_deciding(self) -> None:
        """Earlier decisions are still committed and answered."""
        self._deposed()

    def _elected(self) -> None:
        self._active = True
        self._propose(activate(self._quorum.feed.ahead, self._quorum.bootstrap, self._config)).add_done_callback(
            _look_at
        )

        self.heartbeats.begin(self._quorum.feed.ahead, self._clock.monotonic_ms())
        self.watch_sessions()
        self._balance_later()

    def _deposed(self) -> None:
        self._active = False
        self.heartbeats.end()
        for timer in (self._session_watch, self._balancing):
            if timer is not None:
                timer.cancel()
        self._session_watch = self._balancing = None

    # What an active controller does by itself

    def suspect(self, broker_id: BrokerId) -> None:
        """A connection with this broker broke: perhaps it has died."""
        self.heartbeats.suspect(broker_id, self._clock.monotonic_ms())
        self.watch_sessions()

    def _unreachable(self, node_id: BrokerId) -> None:
        """Suspects a broker that may have died with the last active controller, which had watched its session."""
        if self._active:
            self.heartbeats.suspect_unheard(node_id, self._clock.monotonic_ms())
            self.watch_sessions()

    def watch_sessions(self) -> None:
        """Schedules a check for when the next session may have ended."""
        if self._session_watch is not None:
            self._session_watch.cancel()
            self._session_watch = None
        deadline_ms = self.heartbeats.next_deadline_ms
        if self._active and deadline_ms is not None:
            wait_ms = max(1, deadline_ms + 1 - self._clock.monotonic_ms())
            self._session_watch = asyncio.get_running_loop().call_later(wait_ms / 1000, self._fence_the_silent)

    def _fence_the_silent(self) -> None:
        self._session_watch = None
        now_ms = self._clock.monotonic_ms()
        self.heartbeats.excuse(now_ms)
        while self._active and self.heartbeats.stale(now_ms):
            if not self._propose_unasked(self.heartbeats.fence_one_stale(self._quorum.feed.ahead, now_ms)):
                return
        self.watch_sessions()

    def _balance_later(self) -> None:
        interval_ms = balance_interval_ms(self._config)
        if interval_ms is not None and self._active:
            self._balancing = asyncio.get_running_loop().call_later(interval_ms / 1000, self._balance)

    def _balance(self) -> None:
        more = True
        while more and self._active:
            decision = balance_leaders(self._quorum.feed.ahead, self._config)
            more = decision.response
            if not self._propose_unasked(decision):
                return
        self._balance_later()

    def _propose_unasked(self, decision: Decision[Any]) -> bool:
        """False when the metadata log has failed: the node stops then, and no caller waits for an answer."""
        try:
            self._propose(decision).add_done_callback(_look_at)
        except KafkaError as failed:
            _log.warning("%s", failed)
            return False
        return True

    # Deciding

    def _propose(self, decision: Decision[R]) -> asyncio.Future[R]:
        for records in _batches(decision):
            self._append(records)
        if decision.sentence:
            _log.info("%s", decision.sentence[:decision_sentence_chars_max])
        reply: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def settled(refused: KafkaError | None) -> None:
            if not reply.done():
                reply.set_result(decision.response) if refused is None else reply.set_exception(refused)

        # A decision without records still rests on the uncommitted ones it saw.
        self._quorum.feed.when_settled(settled)
        return reply

    def _append(self, records: Sequence[Message]) -> None:
        before = self._quorum.feed.ahead
        end = Offset(before.offset + len(records))
        # Replayed before it is written: a record that the image refuses must not reach the log.
        image, delta = before.replay(records, end, self._quorum.leader_epoch)
        self._quorum.propose(records, image, delta)
        unclean = [each for each in elected_outside_isr(delta) if not each.was_eligible]
        if unclean:
            named = [f"broker {each.leader} for {each.topic}-{each.partition}" for each in unclean[:NAMED_MAX]]
            more = f" and {len(unclean) - NAMED_MAX} more" if len(unclean) > NAMED_MAX else ""
            _log.warning(
                "elected leaders that were not in sync, so committed records may be lost: %s%s", ", ".join(named), more
            )


def _look_at(outcome: asyncio.Future[Any]) -> None:
    """Ignores the error: when this controller is deposed before the commit, its successor decides again."""
    if not outcome.cancelled():
        outcome.exception()


def _batches(decision: Decision[R]) -> list[Sequence[Message]]:
    records, most = decision.records, metadata_records_per_decision_max
    if decision.atomic and len(records) > most:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{len(records)} metadata records are too many for one request.")
    return [records[start : start + most] for start in range(0, len(records), most)]
