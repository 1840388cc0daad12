"""Who leads the metadata log and how far it is committed. No I/O: events in, effects out."""

from __future__ import annotations

from enum import Enum

from odradek.base.errors import UnusableDirectory
from odradek.base.ids import NO_BROKER, BrokerId, LeaderEpoch, Offset
from odradek.base.invariants import invariant
from odradek.protocol.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
)
from odradek.protocol.schema import Message
from odradek.quorum.effects import AppendEpochStart, Effect, HighWatermarkAdvanced, LeaderChanged, PersistElection
from odradek.quorum.election import ElectionState
from odradek.quorum.events import Event, LogSynced, ShuttingDown, Started
from odradek.quorum.log_facts import LogFacts
from odradek.quorum.messages import Answer, Fetch, FetchAnswer
from odradek.quorum.timing import Now, QuorumTiming
from odradek.quorum.voters import KRAFT_VERSION, Voter, VoterKey, VoterSet


class QuorumOfSeveral(UnusableDirectory):
    """The voter set names other nodes. Votes over the wire do not exist yet, so no leader could be elected."""


class Role(Enum):
    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


class Quorum:
    """The state of this voter or observer.

    Unattached  -> Prospective   nobody leads and the election timeout passed; the only voter does not wait
    Prospective -> Candidate     a majority would vote for us; the only voter is that majority
    Candidate   -> Leader        a majority voted for us, our own vote durable first
    Leader      -> Resigned      shutting down
    Resigned    -> Prospective   restarted after leading: never again leader in the same epoch, since records
                                 written but lost would be followed by others with the same offset and epoch

    Effects are carried out in order, each finished before the next begins and before the next step.
    """

    def __init__(self, voter: Voter, log: LogFacts, *, cluster_id: str, timing: QuorumTiming | None = None) -> None:
        self._voter = voter
        self._log = log
        self._cluster_id = cluster_id
        self._timing = timing or QuorumTiming()
        self.role = Role.UNATTACHED
        self.election = ElectionState(leader_epoch=LeaderEpoch(-1))
        self.voters = VoterSet(())
        # The offset of this epoch's first record. Nothing is committed in an epoch before that record is.
        self.epoch_start_offset = Offset(-1)
        # Never falls. -1 until the leader of this epoch has committed its first record.
        self.high_watermark = Offset(-1)
        self._synced: dict[VoterKey, Offset] = {}

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.election.leader_epoch

    @property
    def leader_id(self) -> BrokerId:
        """NO_BROKER while nobody is known to lead this epoch, and when we led it and resigned."""
        return NO_BROKER if self.role is Role.RESIGNED else self.election.leader_id

    @property
    def is_voter(self) -> bool:
        """An observer follows and never votes. That may change with the voter set."""
        return self._voter.key in self.voters.keys

    @property
    def deadline_ms(self) -> int | None:
        """When to say `Tick`, on the clock of `Now.ms`. May change with every step."""
        return None

    @property
    def handed_over(self) -> bool:
        """Shutting down, and every other voter knows that we lead no longer."""
        return self.role is not Role.LEADER

    def fetch_answer(self, fetch: Fetch) -> FetchAnswer | Answer:  # noqa: ARG002
        """To a fetch that was held back: what is true now. Changes nothing."""
        return FetchAnswer(leader_id=self.leader_id, leader_epoch=self.leader_epoch, high_watermark=self.high_watermark)

    def step(self, event: Event, now: Now) -> list[Effect]:  # noqa: ARG002
        match event:
            case Started():
                return self._start(event)
            case LogSynced():
                return self._synced_up_to(event.end_offset)
            case ShuttingDown():
                self._become(Role.RESIGNED)
                return [LeaderChanged(NO_BROKER, self.leader_epoch)]
            case _:
                return []

    def _start(self, event: Started) -> list[Effect]:
        invariant(self.leader_epoch < 0, "a quorum starts once")
        if event.voters.keys != (self._voter.key,):
            raise QuorumOfSeveral(
                f"the voters are {[voter.key.voter_id for voter in event.voters.voters]} and this node is "
                f"{self._voter.key.voter_id}: it must be the only voter, with the directory id it was formatted with"
            )
        self.voters = event.voters
        # The log may be ahead of quorum-state when a directory was put together by hand; the epoch never falls.
        self.election = ElectionState(leader_epoch=LeaderEpoch(max(event.election.leader_epoch, self._log.last_epoch)))
        if event.election.leader_id == self._voter.key.voter_id:
            self.role = Role.RESIGNED
        self._become(Role.PROSPECTIVE)
        return [*self._stand(), *self._lead(Offset(self._log.log_end_offset), voters_in_log=event.voters_in_log)]

    def _stand(self) -> list[Effect]:
        self._become(Role.CANDIDATE)
        self.election = ElectionState(leader_epoch=LeaderEpoch(self.leader_epoch + 1), voted=self._voter.key)
        return [PersistElection(self.election)]

    def _lead(self, log_end_offset: Offset, *, voters_in_log: bool) -> list[Effect]:
        self._become(Role.LEADER)
        self.election = ElectionState(leader_epoch=self.leader_epoch, leader_id=self._voter.key.voter_id)
        self.epoch_start_offset = log_end_offset
        self._synced = dict.fromkeys(self.voters.keys, Offset(-1))
        records: list[Message] = [self._leader_change()]
        updated = self.voters.with_voter(self._voter)
        if not voters_in_log or updated != self.voters:
            self.voters = updated
            records += [KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION), updated.to_record()]
        return [
            PersistElection(self.election),
            LeaderChanged(self._voter.key.voter_id, self.leader_epoch),
            AppendEpochStart(self.leader_epoch, tuple(records)),
        ]

    def _leader_change(self) -> LeaderChangeMessage:
        return LeaderChangeMessage(
            version=0,
            leader_id=self._voter.key.voter_id,
            voters=[LeaderChangeMessageVoter(voter_id=key.voter_id) for key in self.voters.keys],
            granting_voters=[LeaderChangeMessageVoter(voter_id=self._voter.key.voter_id)],
        )

    def _synced_up_to(self, end_offset: Offset) -> list[Effect]:
        if self.role is not Role.LEADER:
            return []
        self._synced[self._voter.key] = end_offset
        majority_has = sorted(self._synced.values(), reverse=True)[len(self._synced) // 2]
        if majority_has <= max(self.epoch_start_offset, self.high_watermark):
            return []
        self.high_watermark = majority_has
        return [HighWatermarkAdvanced(majority_has)]

    def _become(self, role: Role) -> None:
        invariant(role in _NEXT_ROLES[self.role], f"{self.role.value} cannot become {role.value}")
        self.role = role


_NEXT_ROLES = {
    Role.UNATTACHED: (Role.PROSPECTIVE,),
    Role.PROSPECTIVE: (Role.CANDIDATE,),
    Role.CANDIDATE: (Role.LEADER,),
    Role.LEADER: (Role.RESIGNED,),
    Role.RESIGNED: (Role.PROSPECTIVE,),
}
