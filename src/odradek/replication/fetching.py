"""What this broker fetches from one leader: which partitions, from which offsets, and when to retry after an error.

One fetch request is in flight at a time. If the leader keeps a fetch session (KIP-227), the request is incremental: it
names only partitions that changed since the last one, so that thousands of idle partitions cost nothing.

    followed ──► due ──question()──► named ──answered()──► due, or named still when nothing changed
                  ▲                    │
                  └── after a backoff ─┴─► resting, or left out until the image has another leader epoch
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.base.errors import ErrorCode
from odradek.protocol.fetch import FetchPartition
from odradek.protocol.replica_fetch import FetchReply, PartitionReply
from odradek.replication.following import Position, Verdict, position, take
from odradek.replication.partition import Partition

NO_SESSION, FIRST = 0, 0
INT32_MAX = 2**31 - 1
# The first backoff is short: at an election one side often learns of it only a moment before the other.
REST_MS_MIN = 20

Key = tuple[bytes, int]


class Question(NamedTuple):
    session_id: int
    session_epoch: int
    topics: list[tuple[bytes, list[FetchPartition]]]
    forgotten: list[tuple[bytes, list[int]]]
    # Not longer than the shortest backoff of a resting partition.
    max_wait_ms: int


class Fetching:
    def __init__(self, *, partition_max_bytes: int, max_wait_ms: int, rest_ms_max: int) -> None:
        self._partition_max_bytes = partition_max_bytes
        self._max_wait_ms = max_wait_ms
        self._rest_ms_max = rest_ms_max
        self._followed: dict[Key, Partition] = {}
        # To be named in the next request.
        self._due: dict[Key, None] = {}
        # When to retry, and the last backoff. The backoff is kept until a fetch succeeds.
        self._resting: dict[Key, int] = {}
        self._rest_ms: dict[Key, int] = {}
        # The last requested positions: the leader answers for these, from its session or from this request.
        self._named: dict[Key, Position] = {}
        # Still in the leader's session, but no longer wanted.
        self._forgotten: dict[Key, None] = {}
        self._session_id = NO_SESSION
        self._session_epoch = FIRST

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, partition: Partition) -> None:
        """Start to fetch this partition, or restart with another leader epoch."""
        key = _key(partition)
        self._followed[key] = partition
        self._due[key] = None
        self._resting.pop(key, None)
        self._rest_ms.pop(key, None)

    def leave(self, partition: Partition) -> None:
        key = _key(partition)
        if self._followed.get(key) is partition:
            del self._followed[key]
            self._stop_asking(key)
            self._rest_ms.pop(key, None)

    def follows(self, partition: Partition) -> bool:
        return self._followed.get(_key(partition)) is partition

    # Requests

    def unsynced(self, now_ms: int) -> list[Partition]:
        """The partitions that must sync their log before the next fetch: a fetch acknowledges everything before it.

        This is not only what came with the last reply: after an election it may be records from another leader.
        """
        self._end_rests(now_ms)
        due = [self._followed[key] for key in self._due]
        return [each for each in due if not each.log.offline and not each.is_synced(each.log.log_end_offset - 1)]

    def question(self, now_ms: int) -> Question | None:
        """The next request, or None while there is nothing to fetch."""
        self._end_rests(now_ms)
        for partition in [self._followed[key] for key in self._due]:
            if partition.log.offline:
                # It may have lost the last records, and a fetch would acknowledge them.
                self.leave(partition)
        asked = {key: position(self._followed[key]) for key in self._due}
        self._due.clear()
        news = {key: where for key, where in asked.items() if self._named.get(key) != where}
        self._named |= news
        forgotten = [key for key in self._forgotten if key not in self._named]
        self._forgotten.clear()
        if self._session_epoch == FIRST:
            news, forgotten = self._named, []
        if not self._named:
            self._begin_anew()
            return None
        return Question(
            self._session_id, self._session_epoch, self._topics(news), _indexes(forgotten), self._patience_ms(now_ms)
        )

    def _end_rests(self, now_ms: int) -> None:
        for key in [key for key, until_ms in self._resting.items() if until_ms <= now_ms]:
            del self._resting[key]
            self._due[key] = None

    def idle_ms(self, now_ms: int) -> int | None:
        """How long until `question` may return a request. None when that depends on a new image."""
        return max(min(self._resting.values()) - now_ms, 0) if self._resting else None

    def _patience_ms(self, now_ms: int) -> int:
        rest_ms = self.idle_ms(now_ms)
        return self._max_wait_ms if rest_ms is None else min(rest_ms, self._max_wait_ms)

    def _topics(self, news: dict[Key, Position]) -> list[tuple[bytes, list[FetchPartition]]]:
        topics: dict[bytes, list[FetchPartition]] = {}
        for (topic_id, index), where in news.items():
            topics.setdefault(topic_id, []).append(FetchPartition(index, *where, self._partition_max_bytes))
        return list(topics.items())

    # Replies

    def answered(self, reply: FetchReply, now_ms: int, wall_ms: int) -> None:
        if reply.error_code:
            self._refused(reply.error_code, now_ms)
            return
        self._session_goes_on(reply.session_id)
        for topic_id, parts in reply.topics:
            for part in parts:
                self._answered_one((topic_id, part.partition), part, now_ms, wall_ms)

    def failed(self) -> None:
        """The request failed: the leader may or may not have processed it."""
        self._begin_anew()

    def _answered_one(self, key: Key, part: PartitionReply, now_ms: int, wall_ms: int) -> None:
        partition, asked = self._followed.get(key), self._named.get(key)
        if partition is None or asked is None:
            return
        verdict = take(partition, asked, part, wall_ms)
        if verdict is Verdict.GO_ON:
            self._rest_ms.pop(key, None)
            self._due[key] = None
        elif verdict is Verdict.RETRY:
            self._rest(key, now_ms)
        else:
            # Followed again when the image has another leader epoch.
            self.leave(partition)

    def _rest(self, key: Key, now_ms: int) -> None:
        rest_ms = min(max(2 * self._rest_ms.get(key, 0), REST_MS_MIN), self._rest_ms_max)
        self._rest_ms[key] = rest_ms
        self._stop_asking(key)
        self._resting[key] = now_ms + rest_ms

    def _stop_asking(self, key: Key) -> None:
        self._due.pop(key, None)
        self._resting.pop(key, None)
        if self._named.pop(key, None) is not None:
            self._forgotten[key] = None

    # The session

    def _session_goes_on(self, session_id: int) -> None:
        if session_id == NO_SESSION:
            self._session_is_gone()
        elif session_id != self._session_id:
            self._session_id, self._session_epoch = session_id, 1
        else:
            self._session_epoch = 1 if self._session_epoch == INT32_MAX else self._session_epoch + 1

    def _begin_anew(self) -> None:
        """The next request names all partitions, and the session it replaces: otherwise the leader would keep both."""
        self._session_epoch = FIRST

    def _session_is_gone(self) -> None:
        self._session_id, self._session_epoch = NO_SESSION, FIRST

    def _refused(self, code: int, now_ms: int) -> None:
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_is_gone()
            return
        self._begin_anew()
        if code in (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR):
            return
        for key in list(self._named):
            self._rest(key, now_ms)


def _key(partition: Partition) -> Key:
    return partition.topic_id, partition.index


def _indexes(keys: list[Key]) -> list[tuple[bytes, list[int]]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return list(topics.items())
