"""The sessions of brokers with the active controller: who was heard when, who has gone silent, who wants to go.

Nothing of it is in the metadata log. A new active controller has heard nobody and gives everyone a whole session.
Safety needs none of this: fencing a broker that lives costs a change of leaders, fencing late costs time; what an
outdated broker still does is refused by epochs. So a lost connection may shorten a session, as a hint; and so may a
new controller's failing to reach a broker that it has not heard yet: that one may have died with the old controller.
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
# A controller that looks later than that after the end of a session was kept from looking.
_LATE_MS = 250
# Enough to read what has arrived.
_SECOND_LOOK_MS = 50


class State(Enum):
    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    broker_epoch: int
    # Silent until then, it is stale.
    deadline_ms: int
    # By this controller, and no connection with it broke since.
    heard: bool = False
    # How far the broker has replayed the metadata log.
    metadata_offset: Offset = _UNKNOWN_OFFSET
    # When every active broker has replayed this, none takes the broker for a leader any more, and it may end.
    shutdown_offset: Offset | None = None
    # It has ended, and was given some more since it was last heard.
    excused: bool = False


class Heartbeats:
    """`suspicion_ms`: how long a broker may be silent once its connection was lost."""

    def __init__(self, config: BrokerConfig, *, suspicion_ms: int | None = None) -> None:
        self._config = config
        self._session_ms = config.broker_session_timeout_ms
        # A broker that lives speaks within one interval, through a new connection.
        self._suspicion_ms = (
            min(self._session_ms, config.broker_heartbeat_interval_ms * 3 // 2)
            if suspicion_ms is None
            else suspicion_ms
        )
        self._sessions: dict[BrokerId, Session] = {}

    def begin(self, image: ClusterImage, now_ms: int) -> None:
        """This controller has become active."""
        self._sessions = {
            broker.broker_id: Session(broker_epoch=broker.broker_epoch, deadline_ms=now_ms + self._session_ms)
            for broker in image.brokers.values()
            if not broker.fenced
        }

    def end(self) -> None:
        """It is no longer active: what it heard is worth nothing to its successor."""
        self._sessions = {}

    def has_session(self, broker_id: BrokerId, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and now_ms <= session.deadline_ms

    def is_heard(self, broker_id: BrokerId) -> bool:
        """By this controller, and nothing hints at its death since."""
        session = self._sessions.get(broker_id)
        return session is not None and session.heard

    def touch(self, broker_id: BrokerId, broker_epoch: int, now_ms: int) -> None:
        """The broker was heard. Also right for a heartbeat that waited too long to be acted on."""
        known = self._sessions.get(broker_id)
        if known is None or known.broker_epoch != broker_epoch:
            known = Session(broker_epoch=broker_epoch, deadline_ms=0)
        self._sessions[broker_id] = replace(known, deadline_ms=now_ms + self._session_ms, heard=True, excused=False)

    def suspect(self, broker_id: BrokerId, now_ms: int) -> None:
        """A connection to or from the broker broke. Its next heartbeat clears it."""
        known = self._sessions.get(broker_id)
        if known is not None:
            deadline_ms = min(known.deadline_ms, now_ms + self._suspicion_ms)
            self._sessions[broker_id] = replace(known, deadline_ms=deadline_ms, heard=False)

    def suspect_unheard(self, broker_id: BrokerId, now_ms: int) -> None:
        """The broker cannot be reached. Whoever was heard by this controller keeps its session all the same."""
        known = self._sessions.get(broker_id)
        if known is not None and known.metadata_offset == _UNKNOWN_OFFSET:
            self.suspect(broker_id, now_ms)

    def excuse(self, now_ms: int) -> None:
        """Whose session has ended is looked at twice: this controller may have stood still, and what brokers sent
        meanwhile be unread. If it certainly has, they may have stood still with it, and be silent as long as one whose
        connection was lost."""
        for broker_id, session in self._sessions.items():
            if session.deadline_ms < now_ms and not session.excused:
                late = session.deadline_ms + _LATE_MS < now_ms
                deadline_ms = now_ms + (self._suspicion_ms if late else _SECOND_LOOK_MS)
                self._sessions[broker_id] = replace(session, deadline_ms=deadline_ms, excused=True)

    @property
    def next_deadline_ms(self) -> int | None:
        """Just after this there may be somebody stale."""
        return min((session.deadline_ms for session in self._sessions.values()), default=None)

    def fence_one_stale(self, image: ClusterImage, now_ms: int) -> Decision[bool]:
        """Whether there was one: then ask again. One at a time, so that each sees what the one before has changed."""
        stale = self.stale(now_ms)
        if not stale:
            return Decision(response=False)
        broker_id = stale[0]
        session = self._sessions.pop(broker_id)
        fencing = fence_broker(image, broker_id, session.broker_epoch, "its session has timed out", self._config)
        return Decision(records=fencing.records, response=True, sentence=fencing.sentence, atomic=fencing.atomic)

    def stale(self, now_ms: int) -> list[BrokerId]:
        """Longest silent first."""
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
        # What follows sees which disks are gone: the broker must not be elected for what lies on them.
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
                return fence_broker(image, broker_id, broker_epoch, "it asked to be", self._config)

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
        """No active broker at all: nobody has to be waited for."""
        return min(
            (self._offset(broker.broker_id) for broker in image.brokers.values() if broker.active),
            default=float("inf"),
        )

    def _offset(self, broker_id: BrokerId) -> Offset:
        session = self._sessions.get(broker_id)
        return _UNKNOWN_OFFSET if session is None else session.metadata_offset


def _after(image: ClusterImage, records: Sequence[Message]) -> ClusterImage:
    return image.replay(records, Offset(image.offset + len(records)), image.epoch)[0] if records else image
