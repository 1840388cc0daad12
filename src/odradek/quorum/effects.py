"""What a step wants done: carried out in order, each finished before the next begins and before the next step."""

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
    """Replace `quorum-state`, durably, before the next effect is carried out."""

    election: ElectionState


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """`leader_id` leads in this epoch, as far as we know; NO_BROKER while nobody does.

    If that is this node, `AppendEpochStart` follows; if it was this node, whatever it decided and did not see committed
    is void.
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
    """Append this control record in `leader_epoch`, then tell `VotersChanged`."""

    leader_epoch: LeaderEpoch
    record: VotersRecord


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Append these batches at the log's end as they came. None may be of a later epoch than `leader_epoch`."""

    leader_epoch: LeaderEpoch
    records: bytes | memoryview


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Forget what lies at and above this offset. It is never below the high watermark.

    A sync that began before says nothing about what is appended after: it must not move `synced_end_offset`.
    """

    offset: Offset


@dataclass(frozen=True, slots=True)
class FetchSnapshot:
    """Load this snapshot from the leader, in parts.

    It may be wanted no longer when it is there: only if `Quorum.is_loading` says so may it take the place of the log.
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
    """Ask a peer, and do not wait: exactly one `Answered` or `RequestFailed` follows later."""

    peer: BrokerId
    request: Request


@dataclass(frozen=True, slots=True)
class Reply:
    """To the request that came with this token.

    A FetchAnswer without records may be held back until there are some, or the high watermark moves, or the fetch has
    waited long enough; `Quorum.fetch_answer` says then what is true.
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
