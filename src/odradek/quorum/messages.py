"""What voters and observers say to each other, freed of the wire: the shell translates to and from Kafka's messages.

Every answer names the leader and the epoch as its sender knows them: that is how news of an election spreads.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.base.errors import ErrorCode
from odradek.base.ids import NO_BROKER, BrokerId, LeaderEpoch, Offset
from odradek.quorum.log_facts import EpochEnd, SnapshotId
from odradek.quorum.voters import Voter, VoterKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    candidate: VoterKey
    # Whom it is meant for. A directory id of zeros is not checked.
    voter: VoterKey
    cluster_id: str | None
    # The epoch the candidate stands in; with `pre_vote` the one it is in and would leave.
    leader_epoch: LeaderEpoch
    last_epoch: LeaderEpoch
    log_end_offset: Offset
    pre_vote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpoch:
    """The leader tells those that do not fetch from it."""

    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    voter: VoterKey
    cluster_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpoch:
    """The leader resigns."""

    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    cluster_id: str | None
    # The most caught-up first: it need not wait before it stands.
    successors: tuple[VoterKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """All below `fetch_offset` is durable at `replica`, and its last record is of `last_fetched_epoch`."""

    replica: VoterKey
    cluster_id: str | None
    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSnapshot:
    """A part of a snapshot is asked for. The core says whether we lead, the shell which bytes."""

    replica: VoterKey
    cluster_id: str | None
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoter:
    voter: Voter
    cluster_id: str | None
    # Otherwise once appended.
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoter:
    voter: VoterKey
    cluster_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoter:
    """A voter has new endpoints or versions."""

    voter: Voter
    cluster_id: str | None
    leader_epoch: LeaderEpoch


Request = Vote | BeginEpoch | EndEpoch | Fetch | ReadSnapshot | AddVoter | RemoveVoter | UpdateVoter


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """To BeginEpoch, EndEpoch, ReadSnapshot, and to a Vote, Fetch or change of voters when it is refused."""

    error: ErrorCode = ErrorCode.NONE
    leader_id: BrokerId = NO_BROKER
    leader_epoch: LeaderEpoch
    # For people.
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer(Answer):
    granted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer(Answer):
    """Without an error, a divergence or a snapshot: the records from the fetch offset on, perhaps none."""

    high_watermark: Offset
    # Where the leader's log parts from the replica's.
    diverging: EpochEnd | None = None
    # The leader has this instead of the records asked for.
    snapshot: SnapshotId | None = None
    # Put in by the shell on both sides: whole batches, none of a later epoch than `leader_epoch`.
    records: bytes | memoryview = b""
