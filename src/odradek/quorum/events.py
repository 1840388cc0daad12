"""What can happen to a member of the quorum: told one at a time, the effects of the one before carried out."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.base.ids import BrokerId, Offset
from odradek.quorum.election import ElectionState
from odradek.quorum.log_facts import SnapshotId
from odradek.quorum.messages import Answer, Request
from odradek.quorum.voters import VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The node has loaded its disk: once, before any other event."""

    election: ElectionState
    # Empty when unknown: an observer that has fetched nothing yet.
    voters: VoterSet
    # False while the voter set is known only from the bootstrap checkpoint or the configuration.
    voters_in_log: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """`deadline_ms` has come."""


@dataclass(frozen=True, slots=True)
class LogSynced:
    """`LogFacts.synced_end_offset` has moved up.

    After the start and after every append the log is to be synced soon. Until it is, a leader commits nothing and a
    follower fetches nothing, since to fetch from an offset is to say that all below it is safe here.
    """


@dataclass(frozen=True, slots=True)
class VotersChanged:
    """The newest VotersRecord of the log, committed or not, is now another one.

    Owed at once after an append, a truncation or a snapshot that made it so.
    """

    voters: VoterSet
    # Where it stands; -1 when no record is left and these are the voters of the start.
    offset: Offset


@dataclass(frozen=True, slots=True)
class Requested:
    """A peer asks. The answer comes as `Reply` with the same token."""

    token: object
    request: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """A peer answered what `Send` asked it."""

    peer: BrokerId
    request: Request
    answer: Answer


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """No answer will come: it timed out, or the connection broke."""

    peer: BrokerId
    request: Request
    # The connection was refused or reset: the peer's process is probably gone. A hint, never a proof.
    peer_gone: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """Another part of the snapshot that `FetchSnapshot` asked for has arrived."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotLoaded:
    """The snapshot is durable and stands for all of the log, which now begins and ends where the snapshot ends."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    """The leader does not have it any more, or the transfer broke."""

    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class Resign:
    """Lead no longer: the shell cannot go on as the leader. Nothing if we do not lead."""


@dataclass(frozen=True, slots=True)
class ShuttingDown:
    """Stand for no election any more, and resign if we lead. `Quorum.handed_over` says when peers know."""


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
