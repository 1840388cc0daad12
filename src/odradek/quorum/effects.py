"""The effects of a step. Run them in order; finish each before the next one begins, and all before the next step."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.base.ids import BrokerId, LeaderEpoch, Offset
from odradek.protocol.control_records import VotersRecord
from odradek.protocol.schema import Message
from odradek.quorum.election import ElectionState
from odradek.quorum.log_facts import SnapshotId
from odradek.quorum.messages import Answer, Request


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Durably replace `quorum-state` before the next effect."""

    election: ElectionState


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """`leader_id` leads this epoch, as far as this node knows. NO_BROKER: no known leader.

    If this node is the new leader, `AppendEpochStart` follows. If it was the leader before, its uncommitted decisions
    are void.
    """

    leader_id: BrokerId
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class AppendEpochStart:
    """Append these control records as one batch, the first of `leader_epoch`."""

    leader_epoch: LeaderEpoch
    records: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class AppendVoters:
    """Append this control record in `leader_epoch`, then send the event `VotersChanged`."""

    leader_epoch: LeaderEpoch
    record: VotersRecord


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Append these batches unchanged. None may have a later epoch than `leader_epoch`."""

    leader_epoch: LeaderEpoch
    records: bytes | memoryview


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Remove the records from this offset on. It is never below the high watermark.

    A sync that began before the truncation does not cover later appends: it must not move `synced_end_offset`.
    """

    offset: Offset


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """Load this snapshot from the leader, in parts.

    When it has arrived, it may no longer be wanted: replace the log with it only if `Quorum.is_loading` is true.
    """

    leader_id: BrokerId
    leader_epoch: LeaderEpoch
    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Records below this offset are committed: they survive any failure the quorum survives."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request and do not wait. Exactly one event `Answered` or `RequestFailed` must follow later."""

    peer: BrokerId
    request: Request


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to the request with this token.

    A FetchAnswer without records may be delayed until there are records, the high watermark moves, or the fetch times
    out. Then `Quorum.fetch_answer` returns the current answer.
    """

    token: object
    answer: Answer


Effect = (
    PersistElection
    | LeaderChanged
    | AppendEpochStart
    | AppendVoters
    | AppendFetched
    | TruncateTo
    | FetchSnapshot
    | HighWatermarkAdvanced
    | Send
    | Reply
)
