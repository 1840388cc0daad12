"""Fetch sessions (KIP-227): a client names its partitions once, and each answer has only what changed.

A request is (session id, session epoch): (0, -1) has no session, (any, 0) asks for a new one, (id, -1) ends one,
(id, n) is the n-th incremental request of one. A broker without room answers with id 0: each request stays a full one.
To make room, the broker evicts idle sessions, and for a follower also sessions of consumers: a follower without a
session names all of its partitions in every request, as long as it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.base import limits
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Clock, Rng
from odradek.monitor.instruments import Counter
from odradek.protocol.fetch import FetchPartition, FetchRequest, TopicKey
from odradek.protocol.fetch_response import FetchedPartition

NO_SESSION = 0
EPOCH_FIRST, EPOCH_LAST = 0, -1
INT32_MAX = 2**31 - 1
# A session that was used more recently is evicted only for a follower.
EVICTABLE_AFTER_MS = 120_000


class Wanted:
    """One partition of a fetch, with what was last sent to its client about it."""

    __slots__ = ("fetch", "high_watermark", "log_start_offset", "topic")

    def __init__(self, topic: TopicKey, fetch: FetchPartition) -> None:
        self.topic = topic
        self.fetch = fetch
        self.high_watermark = -1
        self.log_start_offset = -1

    def ask_again(self, fetch: FetchPartition) -> None:
        """The client names the partition again. If it has not moved on, it may have dropped the last answer.

        Then the watermark is sent again. A follower drops answers while its leader epoch changes; without this it
        would get the watermark only with the next record.
        """
        known = self.fetch
        if fetch.fetch_offset == known.fetch_offset or fetch.current_leader_epoch != known.current_leader_epoch:
            self.high_watermark = self.log_start_offset = -1
        self.fetch = fetch


class FetchSession:
    __slots__ = ("by_topic_id", "epoch", "is_followers", "last_used_ms", "session_id", "wanted")

    def __init__(
        self, session_id: int, now_ms: int, wanted: Iterable[Wanted], *, by_topic_id: bool, is_followers: bool
    ) -> None:
        self.session_id = session_id
        self.by_topic_id = by_topic_id
        self.is_followers = is_followers
        self.last_used_ms = now_ms
        # The epoch that the next request of this session must have.
        self.epoch = 1
        # In the order in which partitions are served: a partition that got records moves to the end.
        self.wanted = {(entry.topic, entry.fetch.partition): entry for entry in wanted}

    def update(self, request: FetchRequest) -> None:
        for topic, partitions in request.forgotten:
            for index in partitions:
                self.wanted.pop((topic, index), None)
        for topic, fetches in request.topics:
            for fetch in fetches:
                known = self.wanted.get((topic, fetch.partition))
                if known is None:
                    self.wanted[topic, fetch.partition] = Wanted(topic, fetch)
                else:
                    known.ask_again(fetch)

    def served(self, entry: Wanted) -> None:
        key = (entry.topic, entry.fetch.partition)
        if self.wanted.get(key) is entry:
            del self.wanted[key]
            self.wanted[key] = entry


class FetchPlan:
    """What one request fetches and how much of it has to be answered."""

    __slots__ = ("_incremental", "_session", "wanted")

    def __init__(self, wanted: list[Wanted], session: FetchSession | None, *, incremental: bool) -> None:
        self.wanted = wanted
        self._session = session
        self._incremental = incremental

    @property
    def session_id(self) -> int:
        return NO_SESSION if self._session is None else self._session.session_id

    @property
    def begins_session(self) -> bool:
        return self._session is not None and not self._incremental

    def answers(self, entry: Wanted, read: FetchedPartition) -> bool:
        """Whether the reply, which is about to be sent, has to name this partition; remembers what is sent."""
        if self._session is None:
            return True
        news = (
            read.records is not None
            or read.error_code
            or read.diverging_epoch is not None
            or read.preferred_read_replica >= 0
            or read.high_watermark != entry.high_watermark
            or read.log_start_offset != entry.log_start_offset
        )
        # After an error both are -1, so that the partition is named again once the error is gone. A follower that
        # has to truncate its log ignores the watermark in that answer.
        entry.high_watermark = read.high_watermark if read.diverging_epoch is None else -1
        entry.log_start_offset = read.log_start_offset
        if read.records is not None:
            self._session.served(entry)
        return bool(news) or not self._incremental


class FetchSessions:
    """All sessions of a broker, least recently used first."""

    def __init__(self, sessions_max: int, clock: Clock, rng: Rng, evictions: Counter | None = None) -> None:
        """`evictions` counts sessions that were given up to make room for others."""
        self._sessions_max = sessions_max
        self._clock = clock
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0
        self._evictions = evictions or Counter()

    @property
    def partitions(self) -> int:
        """The partitions of all sessions."""
        return self._partitions

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(self, request: FetchRequest, *, by_topic_id: bool) -> FetchPlan:
        """Raises KafkaError when the request does not belong to the session it names."""
        if request.session_epoch not in (EPOCH_FIRST, EPOCH_LAST):
            return self._incremental(request, by_topic_id=by_topic_id)
        if request.session_id != NO_SESSION:
            self._end(request.session_id)
        wanted = [Wanted(topic, fetch) for topic, fetches in request.topics for fetch in fetches]
        session = None
        is_followers = request.replica_id >= 0
        if request.session_epoch == EPOCH_FIRST and self._make_room(1, len(wanted), for_follower=is_followers):
            session = self._begin(wanted, by_topic_id=by_topic_id, is_followers=is_followers)
        return FetchPlan(wanted, session, incremental=False)

    def _incremental(self, request: FetchRequest, *, by_topic_id: bool) -> FetchPlan:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id is not by_topic_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._partitions -= len(session.wanted)
        session.update(request)
        self._partitions += len(session.wanted)
        session.epoch = 1 if session.epoch == INT32_MAX else session.epoch + 1
        session.last_used_ms = self._clock.monotonic_ms()
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        too_many = self._partitions > limits.fetch_session_partitions_max
        if not session.wanted or (too_many and not self._make_room(0, 0, for_follower=session.is_followers)):
            self._end(session.session_id)
            return FetchPlan(list(session.wanted.values()), None, incremental=False)
        return FetchPlan(list(session.wanted.values()), session, incremental=True)

    def _make_room(self, more_sessions: int, more_partitions: int, *, for_follower: bool) -> bool:
        """Evicts sessions only if that makes enough room."""
        excess_sessions = len(self._sessions) + more_sessions - self._sessions_max
        excess_partitions = self._partitions + more_partitions - limits.fetch_session_partitions_max
        evictable = self._evictable(by_follower=for_follower)
        given_up: list[FetchSession] = []
        while excess_sessions > 0 or excess_partitions > 0:
            session = next(evictable, None)
            if session is None:
                return False
            given_up.append(session)
            excess_sessions -= 1
            excess_partitions -= len(session.wanted)
        self._evictions.count += len(given_up)
        for session in given_up:
            self._end(session.session_id)
        return True

    def _evictable(self, *, by_follower: bool) -> Iterator[FetchSession]:
        """Least valuable first: idle sessions, then small ones of consumers, which are cheap to create again."""
        idle_before_ms = self._clock.monotonic_ms() - EVICTABLE_AFTER_MS
        for session in self._sessions.values():
            if session.last_used_ms >= idle_before_ms:
                break
            yield session
        if by_follower:
            consumers = [
                session
                for session in self._sessions.values()
                if not session.is_followers and session.last_used_ms >= idle_before_ms
            ]
            yield from sorted(consumers, key=lambda session: len(session.wanted))

    def _begin(self, wanted: list[Wanted], *, by_topic_id: bool, is_followers: bool) -> FetchSession:
        session_id = self._rng.below(INT32_MAX) + 1
        while session_id in self._sessions:
            session_id = self._rng.below(INT32_MAX) + 1
        session = FetchSession(
            session_id, self._clock.monotonic_ms(), wanted, by_topic_id=by_topic_id, is_followers=is_followers
        )
        self._sessions[session_id] = session
        self._partitions += len(session.wanted)
        return session

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.wanted)
