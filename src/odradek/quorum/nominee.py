"""The roles of an election: prospective asks for pre-votes, then candidate asks for votes in a new epoch.

The pre-vote does not change the epoch, so that a voter that was partitioned does not depose a leader when it returns
(KIP-996).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from odradek.base.ids import NO_BROKER
from odradek.quorum.ballot import Ballot
from odradek.quorum.messages import Answer, Request
from odradek.quorum.roles import Role, RoleState, earliest

if TYPE_CHECKING:
    from odradek.quorum.replica import Replica


class Nominee(RoleState):
    def __init__(self, replica: Replica, ballot: Ballot) -> None:
        super().__init__(replica)
        self._election_deadline_ms = replica.election_deadline()
        self._ballot = ballot

    def deadline_ms(self) -> int | None:
        return earliest(self._election_deadline_ms, self._ballot.deadline_ms())

    def begin(self) -> None:
        self._ballot.open(self.replica)
        self._decide()

    def tick(self) -> None:
        if self.replica.now.ms >= self._election_deadline_ms:
            self._time_is_up()
        else:
            self._ballot.tick(self.replica)

    def answered(self, request: Request, answer: Answer) -> None:
        self._ballot.count(self.replica, request, answer)
        self._decide()

    def failed(self, request: Request) -> None:
        self._ballot.failed(self.replica, request)

    @abstractmethod
    def _decide(self) -> None:
        """Called after each vote: check whether the election is won or lost."""

    @abstractmethod
    def _time_is_up(self) -> None: ...


class Prospective(Nominee):
    role = Role.PROSPECTIVE
    may_vote = True

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica, Ballot(pre_vote=True))

    def wait_anew(self) -> None:
        """This node voted for another candidate meanwhile."""
        self._election_deadline_ms = self.replica.election_deadline()

    def _decide(self) -> None:
        if not self.replica.may_stand or self._ballot.is_lost(self.replica):
            self._time_is_up()
        elif self._ballot.is_won(self.replica):
            self.replica.become_candidate()

    def _time_is_up(self) -> None:
        last_leader = self.replica.election.leader_id
        if last_leader in (NO_BROKER, self.replica.id):
            self.replica.become_unattached(self.replica.leader_epoch)
        else:
            # The last leader may still be alive.
            self.replica.become_follower(last_leader, self.replica.leader_epoch)


class Candidate(Nominee):
    role = Role.CANDIDATE

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica, Ballot(pre_vote=False))

    def _decide(self) -> None:
        # A candidate that lost also waits for the timeout: if it stood again at once, it would lose again.
        if self._ballot.is_won(self.replica):
            self.replica.become_leader(self._ballot.granting)

    def _time_is_up(self) -> None:
        if self.replica.may_stand:
            self.replica.become_prospective()
        else:
            self.replica.become_unattached(self.replica.leader_epoch)
