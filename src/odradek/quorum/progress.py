"""The progress of the replicas of the metadata log, as the leader knows it from their fetches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from odradek.base.ids import Offset
from odradek.quorum.voters import VoterKey

# An observer that is silent for this long is forgotten.
OBSERVER_SESSION_MS = 300_000
_NEVER_MS = -(1 << 62)
_NO_OFFSET = Offset(-1)


@dataclass(slots=True)
class ReplicaProgress:
    key: VoterKey
    # Everything below it is durable on that replica.
    end_offset: Offset
    last_fetch_ms: int
    # When it last had everything in the leader's log.
    caught_up_ms: int = _NEVER_MS
    # The leader's log end at the last fetch.
    target: Offset = _NO_OFFSET


class Progress:
    def __init__(self) -> None:
        self._replicas: dict[VoterKey, ReplicaProgress] = {}

    def fetched(self, key: VoterKey, offset: Offset, leader_end: Offset, now_ms: int) -> None:
        replica = self._of(key, now_ms)
        if offset >= leader_end:
            replica.caught_up_ms = now_ms
        elif 0 <= replica.target <= offset:
            replica.caught_up_ms = max(replica.caught_up_ms, replica.last_fetch_ms)
        replica.target = leader_end
        replica.end_offset = offset
        replica.last_fetch_ms = now_ms

    def heard(self, key: VoterKey, now_ms: int) -> None:
        self._of(key, now_ms).last_fetch_ms = now_ms

    def end_offset(self, key: VoterKey) -> Offset:
        return self._replicas[key].end_offset if key in self._replicas else _NO_OFFSET

    def heard_ms(self, key: VoterKey) -> int:
        return self._replicas[key].last_fetch_ms if key in self._replicas else _NEVER_MS

    def is_caught_up(self, key: VoterKey, since_ms: int) -> bool:
        return key in self._replicas and self._replicas[key].caught_up_ms >= since_ms

    def by_offset(self, keys: Iterable[VoterKey]) -> tuple[VoterKey, ...]:
        """The most caught-up replica first."""
        return tuple(sorted(keys, key=lambda key: (-self.end_offset(key), key)))

    def known(self, voters: Iterable[VoterKey]) -> list[ReplicaProgress]:
        """All known replicas, and the voters that never fetched."""
        silent = [ReplicaProgress(key, _NO_OFFSET, _NEVER_MS) for key in voters if key not in self._replicas]
        return [*silent, *self._replicas.values()]

    def _of(self, key: VoterKey, now_ms: int) -> ReplicaProgress:
        if key not in self._replicas:
            self._forget_silent(now_ms)
            self._replicas[key] = ReplicaProgress(key, _NO_OFFSET, now_ms)
        return self._replicas[key]

    def _forget_silent(self, now_ms: int) -> None:
        silent = [key for key, r in self._replicas.items() if now_ms - r.last_fetch_ms >= OBSERVER_SESSION_MS]
        for key in silent:
            del self._replicas[key]
