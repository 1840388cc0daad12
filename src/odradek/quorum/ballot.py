"""One round of votes: the requests, the granted votes, and the retries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.quorum.log_facts import end_of_log
from odradek.quorum.messages import Answer, Request, Vote, VoteAnswer
from odradek.quorum.voters import VoterKey

if TYPE_CHECKING:
    from odradek.quorum.replica import Replica


class Ballot:
    def __init__(self, *, pre_vote: bool) -> None:
        self._pre_vote = pre_vote
        self._granted: dict[VoterKey, bool] = {}
        # Which voter to ask again, and when.
        self._again_ms: dict[VoterKey, int] = {}

    def open(self, replica: Replica) -> None:
        own = replica.voters.seat_of(replica.key)
        if own is not None:
            self._granted[own] = True
        for voter in replica.other_voters:
            self._ask(replica, voter)

    @property
    def granting(self) -> tuple[VoterKey, ...]:
        return tuple(voter for voter, granted in self._granted.items() if granted)

    def is_won(self, replica: Replica) -> bool:
        return len(self.granting) >= _majority(replica)

    def is_lost(self, replica: Replica) -> bool:
        refused = len(self._granted) - len(self.granting)
        return refused > len(replica.voters.keys) - _majority(replica)

    def count(self, replica: Replica, request: Request, answer: Answer) -> None:
        if isinstance(request, Vote) and isinstance(answer, VoteAnswer) and self._awaits(replica, request):
            self._granted[request.voter] = answer.granted

    def failed(self, replica: Replica, request: Request) -> None:
        if isinstance(request, Vote) and self._awaits(replica, request):
            self._again_ms[request.voter] = replica.now.ms + replica.timing.retry_backoff_ms

    def deadline_ms(self) -> int | None:
        return min(self._again_ms.values(), default=None)

    def tick(self, replica: Replica) -> None:
        for voter in [voter for voter, due_ms in self._again_ms.items() if due_ms <= replica.now.ms]:
            del self._again_ms[voter]
            self._ask(replica, voter)

    def _awaits(self, replica: Replica, vote: Vote) -> bool:
        return (
            vote.leader_epoch == replica.leader_epoch
            and vote.pre_vote == self._pre_vote
            and vote.voter in replica.voters.keys
            and vote.voter not in self._granted
        )

    def _ask(self, replica: Replica, voter: VoterKey) -> None:
        last_epoch, end_offset = end_of_log(replica.log)
        vote = Vote(
            candidate=replica.key,
            voter=voter,
            cluster_id=replica.cluster_id,
            leader_epoch=replica.leader_epoch,
            last_epoch=last_epoch,
            log_end_offset=end_offset,
            pre_vote=self._pre_vote,
        )
        replica.send(voter.voter_id, vote)


def _majority(replica: Replica) -> int:
    return len(replica.voters.keys) // 2 + 1
