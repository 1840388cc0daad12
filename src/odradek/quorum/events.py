"""The events of a quorum member. Pass them one at a time, after the effects of the event before are done."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.base.ids import BrokerId, Offset
from odradek.quorum.election import ElectionState
from odradek.quorum.log_facts import SnapshotId
from odradek.quorum.messages import Answer, Request
from odradek.quorum.voters import VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The node has loaded its data. Sent once, before any other event."""

    election: ElectionState
    # Empty when unknown: an observer has fetched nothing yet.
    voters: VoterSet
    # False while the voter set is known only from the bootstrap checkpoint or the configuration.
    voters_in_log: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """`deadline_ms` has been reached."""


@dataclass(frozen=True, slots=True)
class LogSynced:
    """`LogFacts.synced_end_offset` has increased.

    Sync the log soon after the start and after every append. Until then a leader commits nothing and a follower
    fetches nothing: a fetch from an offset says that everything below it is durable here.
    """


@dataclass(frozen=True, slots=True)
class VotersChanged:
    """The newest VotersRecord of the log, committed or not, has changed.

    Send it immediately after the append, truncation or snapshot that changed it.
    """

    voters: VoterSet
    # Where the record is; -1 when no record is left and these are the voters from the start.
    offset: Offset


@dataclass(frozen=True, slots=True)
class Requested:
    """A request of a peer. The answer is the effect `Reply` with the same token."""

    token: object
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """A peer answered a request of `Send`."""

    peer: BrokerId
    request: Request
    answer: Answer


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """No answer will come: it timed out, or the connection broke."""

    peer: BrokerId
    request: Request
    # The connection was refused or reset: the peer's process has probably ended. This is only a hint.
    peer_gone: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """Another part of the snapshot requested with `FetchSnapshot` has arrived."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotLoaded:
    """The snapshot is durable and replaces the log, which now begins and ends at the end of the snapshot."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    """The leader no longer has the snapshot, or the transfer failed."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class Resign:
    """Stop leading: the shell cannot continue as the leader. No effect if this node does not lead."""


@dataclass(frozen=True, slots=True)
class ShuttingDown:
    """Take part in no more elections, and resign if leading. `Quorum.handed_over` says when the peers know."""


Event = (
    Started
    | Tick
    | LogSynced
    | VotersChanged
    | Requested
    | Answered
    | RequestFailed
    | SnapshotProgress
    | SnapshotLoaded
    | SnapshotFailed
    | Resign
    | ShuttingDown
)
