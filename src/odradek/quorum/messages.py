"""The messages between voters and observers. The shell translates them to and from Kafka's wire format.

Every answer has the leader and the epoch that its sender knows. That is how nodes learn of an election.
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
    # The receiver. A directory id of zeros is not checked.
    voter: VoterKey
    cluster_id: str | None
    # The epoch of the election; with `pre_vote`, the current epoch of the candidate.
    leader_epoch: LeaderEpoch
    last_epoch: LeaderEpoch
    log_end_offset: Offset
    pre_vote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpoch:
    """The leader announces itself to voters that do not fetch from it."""

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
    # The most caught-up voter first: it may stand without a wait.
    successors: tuple[VoterKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Everything below `fetch_offset` is durable on `replica`. Its last record has epoch `last_fetched_epoch`."""

    replica: VoterKey
    cluster_id: str | None
    leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    high_watermark: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSnapshot:
    """A request for a part of a snapshot. The core checks that this node leads; the shell adds the bytes."""

    replica: VoterKey
    cluster_id: str | None
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoter:
    voter: Voter
    cluster_id: str | None
    # False: the answer is sent when the change is appended.
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
    """The answer to BeginEpoch, EndEpoch, ReadSnapshot and voter changes, and to a refused Vote or Fetch."""

    error: ErrorCode = ErrorCode.NONE
    leader_id: BrokerId = NO_BROKER
    leader_epoch: LeaderEpoch
    # A text for users.
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer(Answer):
    granted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer(Answer):
    """Without an error, a divergence or a snapshot: the records from the fetch offset on, perhaps none."""

    high_watermark: Offset
    # Where the replica's log diverges from the leader's.
    diverging: EpochEnd | None = None
    # The leader has this snapshot instead of the requested records.
    snapshot: SnapshotId | None = None
    # Added by the shell on both sides: whole batches, none with a later epoch than `leader_epoch`.
    records: bytes | memoryview = b""
