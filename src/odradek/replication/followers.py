"""How far one follower has got, as its leader knows from its fetches."""

from __future__ import annotations

from odradek.base.ids import BrokerId

UNKNOWN = -1
NEVER_MS = -(2**62)


class Follower:
    """During one leader epoch: a new leader, or an old one elected again, believes nothing it has not been told."""

    __slots__ = (
        "_fetched_ms",
        "_leader_end_then",
        "broker_epoch",
        "broker_id",
        "caught_up_ms",
        "log_end_offset",
        "log_start_offset",
        "told_high_watermark",
    )

    def __init__(self, broker_id: BrokerId) -> None:
        self.broker_id = broker_id
        self.broker_epoch = UNKNOWN
        # All below it is in the follower's log, and is the same there as here.
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        # When it last had everything that the leader had.
        self.caught_up_ms = NEVER_MS
        # Outside of a fetch session, which remembers it better: it knows what a follower may have dropped.
        self.told_high_watermark = UNKNOWN
        self._fetched_ms = NEVER_MS
        self._leader_end_then = UNKNOWN

    def fetched(
        self, offset: int, *, log_start_offset: int, broker_epoch: int, leader_end_offset: int, now_ms: int
    ) -> None:
        """It asked for `offset`, so it has everything before."""
        if offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif self._leader_end_then != UNKNOWN and offset >= self._leader_end_then:
            # Under steady load it is never at the end, but always where the end was a moment ago.
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._leader_end_then = leader_end_offset
        self._fetched_ms = now_ms

    def lags(self, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        return self.log_end_offset != leader_end_offset and not self.was_caught_up(now_ms, lag_ms_max)

    def was_caught_up(self, now_ms: int, lag_ms_max: int) -> bool:
        return now_ms - self.caught_up_ms <= lag_ms_max
