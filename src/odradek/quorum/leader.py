"""The role leader: progress of the replicas, what is committed, and whether a majority is still reachable."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from odradek.base.ids import Offset
from odradek.protocol.control_records import KRaftVersionRecord, LeaderChangeMessage, LeaderChangeMessageVoter
from odradek.protocol.schema import Message
from odradek.quorum.effects import AppendEpochStart
from odradek.quorum.messages import BeginEpoch, Fetch
from odradek.quorum.progress import Progress, ReplicaProgress
from odradek.quorum.roles import Role, RoleState, earliest
from odradek.quorum.voter_changes import VoterChanges
from odradek.quorum.voters import KRAFT_VERSION, VoterKey

if TYPE_CHECKING:
    from odradek.quorum.replica import Replica

N = TypeVar("N", bound=int)


class Leader(RoleState):
    role = Role.LEADER

    def __init__(self, replica: Replica, granting: tuple[VoterKey, ...]) -> None:
        super().__init__(replica)
        self._granting = granting
        # The first record of this epoch is here. Nothing is committed in the epoch before that record is.
        self.epoch_start_offset = Offset(replica.log.log_end_offset)
        self._since_ms = replica.now.ms
        self._begin_due_ms = replica.now.ms
        self.progress = Progress()
        self.changes = VoterChanges()

    def begin(self) -> None:
        self.replica.effects.append(AppendEpochStart(self.replica.leader_epoch, tuple(self._first_records())))
        self.tick()

    def end(self) -> None:
        self.changes.abandon(self.replica)

    def deadline_ms(self) -> int | None:
        if not self.replica.other_voters:
            return None
        return earliest(self._begin_due_ms, self._silence_ends_ms())

    def tick(self) -> None:
        if not self.replica.other_voters:
            return
        if self.replica.now.ms >= self._silence_ends_ms():
            self.resign()
        elif self.replica.now.ms >= self._begin_due_ms:
            self._announce()

    def resign(self) -> None:
        self.replica.resign(self.progress.by_offset(self.replica.other_voters))

    def log_synced(self) -> None:
        self._advance()

    def voters_changed(self) -> None:
        self._advance()

    def fetched(self, fetch: Fetch) -> None:
        """A replica fetched, and its log is a prefix of ours."""
        seat = self.replica.voters.seat_of(fetch.replica)
        self.progress.fetched(
            seat or fetch.replica, fetch.fetch_offset, Offset(self.replica.log.log_end_offset), self.replica.now.ms
        )
        if seat is not None:
            self._advance()

    def heard(self, key: VoterKey) -> None:
        """This replica reads a snapshot, so it is alive."""
        self.progress.heard(self.replica.voters.seat_of(key) or key, self.replica.now.ms)

    def would_vote(self) -> bool:
        return False

    def may_commit(self, offset: Offset) -> bool:
        """A record of an earlier epoch can be lost even on a majority, until a record of this epoch follows it."""
        return offset > self.epoch_start_offset

    def describe(self) -> list[ReplicaProgress]:
        own = ReplicaProgress(self.replica.key, self._own_end, self.replica.now.ms, self.replica.now.ms)
        return [own, *self.progress.known(self.replica.other_voters)]

    @property
    def _own_end(self) -> Offset:
        return Offset(self.replica.log.synced_end_offset)

    def _advance(self) -> None:
        replica = self.replica
        own = replica.voters.seat_of(replica.key)
        synced = {key: self._own_end if key == own else self.progress.end_offset(key) for key in replica.voters.keys}
        majority_has = _majority_has(list(synced.values()))
        if self.may_commit(majority_has):
            replica.advance_high_watermark(majority_has)
        if replica.high_watermark <= self.epoch_start_offset:
            return
        self.changes.committed(replica)
        if own is None and replica.high_watermark > replica.voters_offset:
            # The removal of this node from the voters is committed.
            self.resign()

    def _silence_ends_ms(self) -> int:
        """When the leader has to resign because a majority was silent for too long."""
        replica = self.replica
        own = replica.voters.seat_of(replica.key)
        heard = [replica.now.ms if key == own else self.progress.heard_ms(key) for key in replica.voters.keys]
        return max(_majority_has(heard), self._since_ms) + replica.timing.check_quorum_ms

    def _announce(self) -> None:
        period_ms = self.replica.timing.begin_epoch_ms
        self._begin_due_ms = self.replica.now.ms + period_ms
        for voter in self.replica.other_voters:
            if self.replica.now.ms - self.progress.heard_ms(voter) >= period_ms:
                self.replica.send(voter.voter_id, _beginning(self.replica, voter))

    def _first_records(self) -> list[Message]:
        records: list[Message] = [
            LeaderChangeMessage(
                version=0,
                leader_id=self.replica.id,
                voters=[LeaderChangeMessageVoter(voter_id=key.voter_id) for key in self.replica.voters.keys],
                granting_voters=[LeaderChangeMessageVoter(voter_id=key.voter_id) for key in self._granting],
            )
        ]
        updated = self.replica.voters.with_voter(self.replica.voter)
        if self.replica.voters_offset < 0 or updated != self.replica.voters:
            records += [KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION), updated.to_record()]
            self.replica.voters = updated
            self.replica.voters_offset = Offset(self.epoch_start_offset + 2)
        return records


def _majority_has(values: list[N]) -> N:
    """The largest value that a majority has reached."""
    return sorted(values, reverse=True)[len(values) // 2]


def _beginning(replica: Replica, voter: VoterKey) -> BeginEpoch:
    return BeginEpoch(
        leader_id=replica.id, leader_epoch=replica.leader_epoch, voter=voter, cluster_id=replica.cluster_id
    )
