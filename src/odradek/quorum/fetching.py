"""Fetches of a follower: one at a time, from an offset below which everything is durable here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.ids import NO_BROKER, BrokerId
from odradek.quorum.log_facts import end_of_log
from odradek.quorum.messages import Fetch, Request

if TYPE_CHECKING:
    from odradek.quorum.replica import Replica


class Fetcher:
    def __init__(self, due_ms: int) -> None:
        self._due_ms = due_ms
        self._in_flight: Fetch | None = None
        # The peer asked last.
        self.peer = NO_BROKER

    def deadline_ms(self, replica: Replica) -> int | None:
        return self._due_ms if self._may_send(replica) else None

    def poll(self, replica: Replica, peer: BrokerId) -> None:
        if replica.now.ms < self._due_ms or not self._may_send(replica):
            return
        last_epoch, end_offset = end_of_log(replica.log)
        self._in_flight = Fetch(
            replica=replica.key,
            cluster_id=replica.cluster_id,
            leader_epoch=replica.leader_epoch,
            fetch_offset=end_offset,
            last_fetched_epoch=last_epoch,
            high_watermark=replica.high_watermark,
        )
        self.peer = peer
        replica.send(peer, self._in_flight)

    def is_waiting_for(self, request: Request) -> bool:
        return request == self._in_flight

    def again_at(self, due_ms: int) -> None:
        self._in_flight = None
        self._due_ms = due_ms

    def _may_send(self, replica: Replica) -> bool:
        return self._in_flight is None and is_all_synced(replica)


def is_all_synced(replica: Replica) -> bool:
    """A fetch from an offset says that everything below it is durable here."""
    return replica.log.synced_end_offset >= replica.log.log_end_offset
