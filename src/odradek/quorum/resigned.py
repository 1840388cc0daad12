"""The role resigned: this node led the epoch. It notifies the others, waits an election timeout, opens a new epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.ids import LeaderEpoch
from odradek.quorum.messages import EndEpoch, Request
from odradek.quorum.roles import Role, RoleState
from odradek.quorum.voters import VoterKey

if TYPE_CHECKING:
    from odradek.quorum.replica import Replica


class Resigned(RoleState):
    role = Role.RESIGNED

    def __init__(self, replica: Replica, successors: tuple[VoterKey, ...]) -> None:
        super().__init__(replica)
        self._election_deadline_ms = replica.election_deadline()
        self._successors = successors
        # Number of voters that were notified and have not answered yet.
        self._unanswered = 0

    @property
    def is_known(self) -> bool:
        return self._unanswered == 0

    def deadline_ms(self) -> int | None:
        return None if self.replica.shutting_down else self._election_deadline_ms

    def begin(self) -> None:
        others = self.replica.other_voters
        self._unanswered = len(others)
        for voter in others:
            self.replica.send(voter.voter_id, self._end_of_epoch())

    def tick(self) -> None:
        if self.replica.shutting_down or self.replica.now.ms < self._election_deadline_ms:
            return
        # A new epoch, because peers would still name this node as leader of the old one. An observer opens no epoch.
        newer = LeaderEpoch(self.replica.leader_epoch + 1)
        self.replica.become_unattached(newer if self.replica.is_voter else self.replica.leader_epoch)

    def over(self, request: Request) -> None:
        # A voter that could not be reached notices by its fetch timeout.
        if isinstance(request, EndEpoch):
            self._unanswered -= 1
        if self.is_known and not self.replica.is_voter and not self.replica.shutting_down:
            # This node resigned because it was removed: the others do not wait for it.
            self.replica.become_unattached(self.replica.leader_epoch)

    def _end_of_epoch(self) -> EndEpoch:
        return EndEpoch(
            leader_id=self.replica.id,
            leader_epoch=self.replica.leader_epoch,
            cluster_id=self.replica.cluster_id,
            successors=self._successors,
        )
