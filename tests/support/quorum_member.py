"""One member of a quorum, driven step by step: a test sends events and checks the effects."""

from __future__ import annotations

from odradek.base.errors import ErrorCode
from odradek.quorum.effects import (
    AppendEpochStart,
    AppendFetched,
    AppendVoters,
    PersistElection,
    Reply,
    Send,
    TruncateTo,
)
from odradek.quorum.election import ElectionState
from odradek.quorum.events import Answered, LogSynced, Requested, Started, Tick, VotersChanged
from odradek.quorum.messages import Answer, Fetch, FetchAnswer, Vote, VoteAnswer
from odradek.quorum.quorum import Quorum
from odradek.quorum.roles import Role
from odradek.quorum.timing import Now, QuorumTiming
from odradek.quorum.voters import Voter, VoterSet, voters_from_record
from support.quorum_log import Entry, FakeLog
from support.quorum_node import key_of

TIMING = QuorumTiming()
CLUSTER = "cluster"
K1, K2, K3 = key_of(1), key_of(2), key_of(3)


def voter_set(*keys) -> VoterSet:
    return VoterSet(tuple(Voter(key=key) for key in keys))


class Member:
    """By default, node 1 of the voters 1, 2 and 3."""

    def __init__(
        self,
        *,
        log=None,
        voters=(K1, K2, K3),
        epoch=1,
        leader=-1,
        voted=None,
        key=K1,
        synced=True,
        endpoints=(),
        joins=False,
    ):
        self.log = log or FakeLog.of(1)
        voter = Voter(key=key, endpoints=endpoints)
        self.quorum = Quorum(voter, self.log, cluster_id=CLUSTER, timing=TIMING, joins=joins)
        self.now_ms = 0
        self.chance = 0.5
        election = ElectionState(leader_epoch=epoch, leader_id=leader, voted=voted)
        self.log.synced = 0
        self.effects = self.tell(Started(election=election, voters=voter_set(*voters), voters_in_log=True))
        if synced:
            self.effects += self.sync()

    @property
    def role(self) -> Role:
        return self.quorum.role

    def tell(self, event):
        effects = self.quorum.step(event, Now(self.now_ms, self.chance))
        for effect in effects:
            match effect:
                case AppendEpochStart():
                    for record in effect.records:
                        self.log.append(effect.leader_epoch, record)
                case AppendVoters():
                    self.log.append(effect.leader_epoch, effect.record)
                case AppendFetched():
                    self.log.entries += effect.records
                case TruncateTo():
                    self.log.truncate_to(effect.offset)
        for effect in effects:
            if isinstance(effect, AppendVoters):
                voters = voters_from_record(effect.record)
                return [*effects, *self.tell(VotersChanged(voters, self.log.log_end_offset - 1))]
        return effects

    def sync(self, end_offset=None):
        self.log.synced = self.log.log_end_offset if end_offset is None else end_offset
        return self.tell(LogSynced())

    def wait(self, ms: int):
        """Advance the time, and fire the timer whenever it is due."""
        until, effects = self.now_ms + ms, []
        while self.quorum.deadline_ms is not None and self.quorum.deadline_ms <= until:
            self.now_ms = max(self.now_ms, self.quorum.deadline_ms)
            effects += self.tell(Tick())
        self.now_ms = until
        return effects

    def ask(self, request):
        """The response to a request of a peer."""
        effects = self.tell(Requested("token", request))
        return next(effect.answer for effect in effects if isinstance(effect, Reply))

    def answer(self, send: Send, answer: Answer):
        return self.tell(Answered(send.peer, send.request, answer))

    # --- messages of peers

    def vote(self, candidate=K2, *, epoch, pre_vote=False, last=(1, 1), voter=K1, cluster_id=CLUSTER) -> Vote:
        return Vote(
            candidate=candidate,
            voter=voter,
            cluster_id=cluster_id,
            leader_epoch=epoch,
            last_epoch=last[0],
            log_end_offset=last[1],
            pre_vote=pre_vote,
        )

    def fetch(self, replica=K2, *, offset, last_epoch, epoch=None, high_watermark=-1) -> Fetch:
        return Fetch(
            replica=replica,
            cluster_id=CLUSTER,
            leader_epoch=self.quorum.leader_epoch if epoch is None else epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            high_watermark=high_watermark,
        )

    def granted(self, yes=True, *, leader=-1, epoch=None) -> VoteAnswer:
        return VoteAnswer(leader_id=leader, leader_epoch=epoch or self.quorum.leader_epoch, granted=yes)

    def records(self, *entries, high_watermark=-1) -> FetchAnswer:
        return FetchAnswer(
            leader_id=self.quorum.leader_id,
            leader_epoch=self.quorum.leader_epoch,
            high_watermark=high_watermark,
            records=[Entry(*entry) for entry in entries],
        )

    def refusal(self, error: ErrorCode, *, leader=-1, epoch=None) -> Answer:
        return Answer(error=error, leader_id=leader, leader_epoch=epoch or self.quorum.leader_epoch)

    # --- ways into a role

    def elected(self) -> Member:
        """Makes the member leader of epoch + 1 with the vote of node 2. Its first record is not synced yet."""
        votes = []
        while not votes:
            votes = sends(self.wait(self.quorum.deadline_ms - self.now_ms), Vote)
        votes = sends(self.answer(votes[0], self.granted()), Vote)
        self.effects = self.answer(votes[0], self.granted())
        assert self.role is Role.LEADER
        return self


def sends(effects, kind) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.request, kind)]


def kinds(effects) -> list[type]:
    return [type(effect) for effect in effects]


def persisted(effects) -> list[ElectionState]:
    return [effect.election for effect in effects if isinstance(effect, PersistElection)]
