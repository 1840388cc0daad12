"""The progress of one follower, as its leader knows it from the fetches."""

from __future__ import annotations

from odradek.base.ids import BrokerId

UNKNOWN = -1
NEVER_MS = -(2**62)


class Follower:
    """For one leader epoch. A new leader, also one that is elected again, starts without knowledge of its followers."""

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
        # The follower has all records below it, and they are the same as here.
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        # When it last had everything in the leader's log.
        self.caught_up_ms = NEVER_MS
        # Used only without a fetch session. A session tracks it better: it knows what the follower may have dropped.
        self.told_high_watermark = UNKNOWN
        self._fetched_ms = NEVER_MS
        self._leader_end_then = UNKNOWN

    def fetched(
        self, offset: int, *, log_start_offset: int, broker_epoch: int, leader_end_offset: int, now_ms: int
    ) -> None:
        """It fetches from `offset`, so it has everything before that."""
        if offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif self._leader_end_then != UNKNOWN and offset >= self._leader_end_then:
            # Under steady load it never reaches the log end, but it reaches the log end of its last fetch.
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
