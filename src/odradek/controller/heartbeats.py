"""Broker sessions of the active controller: heartbeats, session timeouts and controlled shutdown.

Sessions are not in the metadata log. A new active controller gives every broker a whole session. Safety does not depend
on them: fencing a live broker costs a leader change, fencing late costs time, and epochs refuse outdated requests. So
a lost connection may shorten a session. So may a failed connection of a new controller to a broker from which it has
no heartbeat yet: that broker may have died with the old controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from odradek.base.ids import BrokerId, DirectoryId, Offset
from odradek.controller import safeguards
from odradek.controller.brokers import check_broker_epoch
from odradek.controller.decision import Decision
from odradek.controller.fencing import (
    begin_controlled_shutdown,
    fence_broker,
    leads_anything,
    lose_directories,
    unfence_broker,
)
from odradek.metadata.configs.broker import BrokerConfig
from odradek.metadata.image import ClusterImage
from odradek.protocol.messages.p63_broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.schema import Message

_UNKNOWN_OFFSET = Offset(-1)
# A controller that checks an expired session later than this was itself paused.
_LATE_MS = 250
# Long enough to read requests that have arrived.
_SECOND_LOOK_MS = 50


class State(Enum):
    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    broker_epoch: int
    # Without a heartbeat until then, the session is stale.
    deadline_ms: int
    # The last heartbeat, or the begin of the session.
    last_ms: int
    # This controller got a heartbeat, and no connection broke since.
    heard: bool = False
    # How far the broker has replayed the metadata log.
    metadata_offset: Offset = _UNKNOWN_OFFSET
    # Once every active broker has replayed this offset, none treats the broker as a leader, and it may stop.
    shutdown_offset: Offset | None = None
    # The session expired, and was extended once since the last heartbeat.
    excused: bool = False


class Heartbeats:
    """`suspicion_ms`: the time for a heartbeat after a broker's connection was lost."""

    def __init__(self, config: BrokerConfig, *, suspicion_ms: int | None = None) -> None:
        self._config = config
        self._session_ms = config.broker_session_timeout_ms
        # A live broker sends a heartbeat within one interval, through a new connection.
        self._suspicion_ms = (
            min(self._session_ms, config.broker_heartbeat_interval_ms * 3 // 2)
            if suspicion_ms is None
            else suspicion_ms
        )
        self._sessions: dict[BrokerId, Session] = {}
        # Brokers that were fenced because their session timed out.
        self.timed_out = 0

    def begin(self, image: ClusterImage, now_ms: int) -> None:
        """Called when this controller becomes active."""
        self._sessions = {
            broker.broker_id: Session(
                broker_epoch=broker.broker_epoch, deadline_ms=now_ms + self._session_ms, last_ms=now_ms
            )
            for broker in image.brokers.values()
            if not broker.fenced
        }

    def end(self) -> None:
        """Called when this controller is no longer active. Its sessions do not apply to its successor."""
        self._sessions = {}

    def has_session(self, broker_id: BrokerId, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and now_ms <= session.deadline_ms

    def silent_ms(self, broker_id: BrokerId, now_ms: int) -> int:
        """How long ago the last heartbeat came; 0 without a session."""
        session = self._sessions.get(broker_id)
        return 0 if session is None else now_ms - session.last_ms

    def is_heard(self, broker_id: BrokerId) -> bool:
        """Whether this controller got a heartbeat, and no connection broke since."""
        session = self._sessions.get(broker_id)
        return session is not None and session.heard

    def touch(self, broker_id: BrokerId, broker_epoch: int, now_ms: int) -> None:
        """Renews the session. Also used for a heartbeat that waited too long to be processed."""
        known = self._sessions.get(broker_id)
        if known is None or known.broker_epoch != broker_epoch:
            known = Session(broker_epoch=broker_epoch, deadline_ms=0, last_ms=now_ms)
        self._sessions[broker_id] = replace(
            known, deadline_ms=now_ms + self._session_ms, last_ms=now_ms, heard=True, excused=False
        )

    def suspect(self, broker_id: BrokerId, now_ms: int) -> None:
        """A connection to or from the broker broke: shortens its session. The next heartbeat restores it."""
        known = self._sessions.get(broker_id)
        if known is not None:
            deadline_ms = min(known.deadline_ms, now_ms + self._suspicion_ms)
            self._sessions[broker_id] = replace(known, deadline_ms=deadline_ms, heard=False)

    def suspect_unheard(self, broker_id: BrokerId, now_ms: int) -> None:
        """The broker cannot be reached. Shortens its session only if this controller never got a heartbeat from it."""
        known = self._sessions.get(broker_id)
        if known is not None and known.metadata_offset == _UNKNOWN_OFFSET:
            self.suspect(broker_id, now_ms)

    def excuse(self, now_ms: int) -> None:
        """Extends each expired session once: this controller may have paused and not read the heartbeats yet.

        If it checks so late that it certainly paused, brokers on the same machine may have paused too. They then get as
        much time as after a lost connection."""
        for broker_id, session in self._sessions.items():
            if session.deadline_ms < now_ms and not session.excused:
                late = session.deadline_ms + _LATE_MS < now_ms
                deadline_ms = now_ms + (self._suspicion_ms if late else _SECOND_LOOK_MS)
                self._sessions[broker_id] = replace(session, deadline_ms=deadline_ms, excused=True)

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest deadline: a session may be stale just after it."""
        return min((session.deadline_ms for session in self._sessions.values()), default=None)

    def fence_one_stale(self, image: ClusterImage, now_ms: int) -> Decision[bool]:
        """Fences one stale broker; the response is whether there was one.

        One at a time, because each decision needs an image that includes the previous one.
        """
        stale = self.stale(now_ms)
        if not stale:
            return Decision(response=False)
        broker_id = stale[0]
        session = self._sessions.pop(broker_id)
        self.timed_out += 1
        fencing = fence_broker(image, broker_id, session.broker_epoch, "its session has timed out", self._config)
        return Decision(records=fencing.records, response=True, sentence=fencing.sentence, atomic=fencing.atomic)

    def stale(self, now_ms: int) -> list[BrokerId]:
        """Brokers with expired sessions, the longest expired first."""
        silent = [(s.deadline_ms, broker_id) for broker_id, s in self._sessions.items() if s.deadline_ms < now_ms]
        return [broker_id for _, broker_id in sorted(silent)]

    def answer(
        self, image: ClusterImage, request: BrokerHeartbeatRequest, now_ms: int
    ) -> Decision[BrokerHeartbeatResponse]:
        broker_id = BrokerId(request.broker_id)
        broker = check_broker_epoch(image, broker_id, request.broker_epoch)
        self.touch(broker_id, request.broker_epoch, now_ms)
        caught_up = safeguards.caught_up_before_unfenced(request.current_metadata_offset, broker.broker_epoch)
        lost = lose_directories(image, broker_id, list(map(DirectoryId, request.offline_log_dirs)), self._config)
        # The next decision must see which disks failed: the broker must not be elected for replicas on them.
        narrowed = _after(image, lost.records)
        following = self._following(narrowed, request, caught_up)
        moved = self._move(narrowed, broker_id, following)
        self._remember(image, request, following, len(lost.records) + len(moved.records))
        response = BrokerHeartbeatResponse(
            is_caught_up=caught_up,
            is_fenced=following in (State.FENCED, State.SHUTDOWN_NOW),
            should_shut_down=following is State.SHUTDOWN_NOW,
        )
        return Decision(
            records=(*lost.records, *moved.records),
            response=response,
            sentence="; ".join(filter(None, (lost.sentence, moved.sentence))),
            atomic=False,
        )

    def _following(self, image: ClusterImage, request: BrokerHeartbeatRequest, caught_up: bool) -> State:
        broker = image.brokers[request.broker_id]
        wants_fence = request.want_fence or all(d in request.offline_log_dirs for d in broker.directories)
        if broker.fenced:
            if request.want_shut_down:
                return State.SHUTDOWN_NOW
            return State.UNFENCED if caught_up and not wants_fence else State.FENCED
        shutdown_offset = self._sessions[broker.broker_id].shutdown_offset
        if shutdown_offset is not None:
            may_end = not leads_anything(image, broker.broker_id) and shutdown_offset <= self._lowest_active_offset(
                image
            )
            return State.SHUTDOWN_NOW if may_end else State.CONTROLLED_SHUTDOWN
        if wants_fence:
            return State.SHUTDOWN_NOW if request.want_shut_down else State.FENCED
        if request.want_shut_down:
            leads = leads_anything(image, broker.broker_id)
            return State.CONTROLLED_SHUTDOWN if leads else State.SHUTDOWN_NOW
        return State.UNFENCED

    def _move(self, image: ClusterImage, broker_id: BrokerId, following: State) -> Decision[None]:
        broker_epoch = image.brokers[broker_id].broker_epoch
        match following:
            case State.UNFENCED:
                return unfence_broker(image, broker_id, broker_epoch, self._config)
            case State.CONTROLLED_SHUTDOWN:
                return begin_controlled_shutdown(image, broker_id, broker_epoch, self._config)
            case State.FENCED | State.SHUTDOWN_NOW:
                return fence_broker(image, broker_id, broker_epoch, "on its own request", self._config)

    def _remember(self, image: ClusterImage, request: BrokerHeartbeatRequest, state: State, records: int) -> None:
        broker_id = BrokerId(request.broker_id)
        session = replace(self._sessions[broker_id], metadata_offset=Offset(request.current_metadata_offset))
        if state is State.CONTROLLED_SHUTDOWN:
            if session.shutdown_offset is None:
                session = replace(session, shutdown_offset=Offset(image.offset + records))
        elif state is State.FENCED or state is State.SHUTDOWN_NOW:
            session = replace(session, shutdown_offset=None)
        self._sessions[broker_id] = session

    def _lowest_active_offset(self, image: ClusterImage) -> float:
        """Infinite if no broker is active: then there is none to wait for."""
        return min(
            (self._offset(broker.broker_id) for broker in image.brokers.values() if broker.active),
            default=float("inf"),
        )

    def _offset(self, broker_id: BrokerId) -> Offset:
        session = self._sessions.get(broker_id)
        return _UNKNOWN_OFFSET if session is None else session.metadata_offset


def _after(image: ClusterImage, records: Sequence[Message]) -> ClusterImage:
    return image.replay(records, Offset(image.offset + len(records)), image.epoch)[0] if records else image
