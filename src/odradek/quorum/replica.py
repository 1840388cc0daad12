"""The state of a quorum member that does not depend on its role, and its changes of role."""

from __future__ import annotations

from odradek.base.ids import NO_BROKER, ZERO_UUID, BrokerId, LeaderEpoch, Offset
from odradek.base.invariants import invariant
from odradek.quorum.effects import Effect, HighWatermarkAdvanced, LeaderChanged, PersistElection, Send
from odradek.quorum.election import ElectionState
from odradek.quorum.follower import Follower
from odradek.quorum.leader import Leader
from odradek.quorum.log_facts import LogFacts, end_of_log
from odradek.quorum.messages import Request, Vote
from odradek.quorum.nominee import Candidate, Prospective
from odradek.quorum.resigned import Resigned
from odradek.quorum.roles import NEXT_ROLES, RoleState
from odradek.quorum.timing import Now, QuorumTiming
from odradek.quorum.unattached import Unattached
from odradek.quorum.voters import Voter, VoterKey, VoterSet


class Replica:
    def __init__(
        self,
        voter: Voter,
        log: LogFacts,
        *,
        cluster_id: str,
        timing: QuorumTiming,
        bootstrap: tuple[BrokerId, ...],
        joins: bool,
    ) -> None:
        # This node as a voter, even if it is not one now.
        self.voter = voter
        self.log = log
        self.cluster_id = cluster_id
        self.timing = timing
        self._bootstrap = bootstrap
        # As an observer, ask to become a voter (KIP-853's automatic joining).
        self.joins = joins
        # The epoch never decreases. Every change is durable before it is used.
        self.election = ElectionState(leader_epoch=LeaderEpoch(-1))
        # The newest voter set in the log, committed or not.
        self.voters = VoterSet(())
        self.voters_offset = Offset(-1)
        # Never decreases.
        self.high_watermark = Offset(-1)
        self.shutting_down = False
        self.now = Now(0, 0.0)
        self.effects: list[Effect] = []
        self.state: RoleState = Unattached(self)
        self._told = NO_BROKER, LeaderEpoch(-1)

    @property
    def key(self) -> VoterKey:
        return self.voter.key

    @property
    def id(self) -> BrokerId:
        return self.voter.key.voter_id

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.election.leader_epoch

    @property
    def leader_id(self) -> BrokerId:
        leads_no_longer = self.election.leader_id == self.id and not isinstance(self.state, Leader)
        return NO_BROKER if leads_no_longer else self.election.leader_id

    @property
    def is_voter(self) -> bool:
        return self.voters.seat_of(self.key) is not None

    @property
    def may_stand(self) -> bool:
        return self.is_voter and not self.shutting_down

    @property
    def listener_name(self) -> str | None:
        """The listener name that voters use among themselves. None for a single voter without endpoints."""
        return self.voter.endpoints[0].name if self.voter.endpoints else None

    @property
    def other_voters(self) -> tuple[VoterKey, ...]:
        own = self.voters.seat_of(self.key)
        return tuple(key for key in self.voters.keys if key != own)

    def send(self, peer: BrokerId, request: Request) -> None:
        self.effects.append(Send(peer, request))

    @property
    def peers(self) -> tuple[BrokerId, ...]:
        """The nodes that may know the leader."""
        known = dict.fromkeys((*(key.voter_id for key in self.other_voters), *self._bootstrap))
        return tuple(peer for peer in known if peer != self.id)

    def any_peer(self, but: BrokerId = NO_BROKER) -> BrokerId | None:
        """A random peer."""
        peers = [peer for peer in self.peers if peer != but]
        return peers[int(self.now.chance * len(peers))] if peers else None

    # --- election rules

    def is_up_to_date(self, vote: Vote) -> bool:
        """A candidate that lacks a record that may be committed must not lead."""
        return (vote.last_epoch, vote.log_end_offset) >= end_of_log(self.log)

    def has_vote_for(self, candidate: VoterKey) -> bool:
        """One vote per epoch, and none after the epoch has a leader."""
        return self.election.leader_id == NO_BROKER and self.election.voted in (None, candidate)

    def is_addressed(self, voter: VoterKey) -> bool:
        """A message to a voter is not for a node with the same id but another directory."""
        return voter == self.key or (voter.voter_id == self.id and voter.directory_id == ZERO_UUID)

    def elect(self, election: ElectionState) -> None:
        invariant(election.leader_epoch >= self.leader_epoch, "the leader epoch decreased")
        if election != self.election:
            self.election = election
            self.effects.append(PersistElection(election))

    def advance_high_watermark(self, high_watermark: Offset) -> None:
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self.effects.append(HighWatermarkAdvanced(high_watermark))

    # --- learning of elections

    def learn(self, leader_id: BrokerId, leader_epoch: LeaderEpoch) -> bool:
        """A peer named the leader. True if that was new and changed the role."""
        if leader_epoch < self.leader_epoch:
            return False
        if leader_id == self.id:
            # This node led before its restart, or has resigned since.
            leader_id = NO_BROKER
        if leader_epoch > self.leader_epoch:
            if leader_id == NO_BROKER:
                self.become_unattached(leader_epoch)
            else:
                self.become_follower(leader_id, leader_epoch)
            return True
        if leader_id in (NO_BROKER, self.election.leader_id):
            return False
        invariant(
            self.election.leader_id == NO_BROKER,
            f"epoch {leader_epoch} has two leaders: {self.election.leader_id} and {leader_id}",
        )
        self.become_follower(leader_id, leader_epoch)
        return True

    # --- changes of role

    def become_unattached(self, leader_epoch: LeaderEpoch) -> None:
        """In a newer epoch, or in this one after a lost election."""
        self._stop_leading()
        if leader_epoch > self.leader_epoch:
            self.elect(ElectionState(leader_epoch=leader_epoch))
        self._become(Unattached(self))

    def become_follower(self, leader_id: BrokerId, leader_epoch: LeaderEpoch) -> None:
        self._stop_leading()
        voted = self.election.voted if leader_epoch == self.leader_epoch else None
        self.elect(ElectionState(leader_epoch=leader_epoch, leader_id=leader_id, voted=voted))
        self._become(Follower(self, leader_id))

    def become_prospective(self) -> None:
        invariant(self.may_stand, "only a voter may stand for election")
        self._become(Prospective(self))

    def become_candidate(self) -> None:
        self.elect(ElectionState(leader_epoch=LeaderEpoch(self.leader_epoch + 1), voted=self.key))
        self._become(Candidate(self))

    def become_leader(self, granting: tuple[VoterKey, ...]) -> None:
        self.elect(ElectionState(leader_epoch=self.leader_epoch, leader_id=self.id))
        self._become(Leader(self, granting))

    def resign(self, successors: tuple[VoterKey, ...]) -> None:
        """The election state does not change, so that this node does not vote in this epoch."""
        self._become(Resigned(self, successors))

    def _stop_leading(self) -> None:
        """Report this before the new epoch is durable: meanwhile nothing may be written, in neither epoch."""
        if isinstance(self.state, Leader):
            self._tell(NO_BROKER)

    def election_deadline(self) -> int:
        return self.now.ms + self.timing.election_timeout(self.now.chance)

    def _become(self, state: RoleState) -> None:
        invariant(
            state.role in NEXT_ROLES[self.state.role], f"{self.state.role.value} cannot become {state.role.value}"
        )
        self.take(state)

    def take(self, state: RoleState) -> None:
        left, self.state = self.state, state
        self._tell(self.leader_id)
        left.end()
        state.begin()

    def _tell(self, leader_id: BrokerId) -> None:
        known = leader_id, self.leader_epoch
        if known != self._told and (leader_id != NO_BROKER or self._told[0] != NO_BROKER):
            self.effects.append(LeaderChanged(*known))
        self._told = known
