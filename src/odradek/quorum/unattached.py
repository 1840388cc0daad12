"""The role unattached: the epoch has no known leader. Ask peers for it, and stand after the election timeout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.quorum.fetching import Fetcher
from odradek.quorum.messages import Request
from odradek.quorum.roles import Role, RoleState, earliest

if TYPE_CHECKING:
    from odradek.quorum.replica import Replica


class Unattached(RoleState):
    role = Role.UNATTACHED
    may_vote = True

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica)
        self._election_deadline_ms = replica.election_deadline()
        self._fetcher = Fetcher(replica.now.ms)

    def deadline_ms(self) -> int | None:
        election = self._election_deadline_ms if self.replica.may_stand else None
        ask_around = self._fetcher.deadline_ms(self.replica) if self.replica.peers else None
        return earliest(election, ask_around)

    def begin(self) -> None:
        self._ask_around()

    def tick(self) -> None:
        if self.replica.may_stand and self.replica.now.ms >= self._election_deadline_ms:
            self.replica.become_prospective()
        else:
            self._ask_around()

    def log_synced(self) -> None:
        self._ask_around()

    def voters_changed(self) -> None:
        self.wait_anew()

    def wait_anew(self) -> None:
        """Restart the election timeout: the candidate that got our vote goes first."""
        self._election_deadline_ms = self.replica.election_deadline()

    def over(self, request: Request) -> None:
        if self._fetcher.is_waiting_for(request):
            self._fetcher.again_at(self.replica.now.ms + self.replica.timing.retry_backoff_ms)

    def _ask_around(self) -> None:
        peer = self.replica.any_peer()
        if peer is not None:
            self._fetcher.poll(self.replica, peer)
