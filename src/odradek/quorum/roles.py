"""The roles of a member, and which may follow which."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING

from odradek.base.ids import BrokerId
from odradek.quorum.messages import Answer, Request

if TYPE_CHECKING:
    from odradek.quorum.replica import Replica


class Role(Enum):
    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


# Observers are only ever unattached or followers.
NEXT_ROLES = {
    # A newer epoch; the election timeout; a leader.
    Role.UNATTACHED: (Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER),
    # A newer epoch; the fetch timeout; another leader.
    Role.FOLLOWER: (Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER),
    # A newer epoch, or too few would vote for us; enough would; the leader we had is still there.
    Role.PROSPECTIVE: (Role.UNATTACHED, Role.CANDIDATE, Role.FOLLOWER),
    # A newer epoch; the election timeout; enough votes; somebody else had enough.
    Role.CANDIDATE: (Role.UNATTACHED, Role.PROSPECTIVE, Role.LEADER, Role.FOLLOWER),
    # A newer epoch; a majority is silent, or we stop, or we vote no longer; a leader of a newer epoch.
    Role.LEADER: (Role.UNATTACHED, Role.RESIGNED, Role.FOLLOWER),
    # A newer epoch, or nobody else stood: never again leader in the epoch that we led, since records written and
    # lost would be followed by others with the same offset and epoch; the only voter; another leader.
    Role.RESIGNED: (Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER),
}


class RoleState(ABC):
    """What a member remembers only while it has a role, and does in it."""

    role: Role
    # Whether one who has this role may vote for somebody else in its epoch, if it has not voted yet.
    may_vote = False

    def __init__(self, replica: Replica) -> None:
        self.replica = replica

    @abstractmethod
    def deadline_ms(self) -> int | None:
        """When `tick` is due."""

    def begin(self) -> None:
        """The role was just taken."""

    def end(self) -> None:
        """Another one follows."""

    def tick(self) -> None:
        """The deadline has come, or nearly."""

    def log_synced(self) -> None:
        """Our own log is durable up to a new end."""

    def voters_changed(self) -> None:
        """The voter set is another one."""

    def would_vote(self) -> bool:
        """For a better candidate, were there an election (KIP-996)."""
        return True

    def answered(self, request: Request, answer: Answer) -> None:
        """By a peer, without error and in this epoch."""

    def failed(self, request: Request) -> None:
        """Not answered, or with an error."""

    def over(self, request: Request) -> None:
        """Answered in whatever way, or not."""

    def peer_gone(self, peer: BrokerId) -> None:
        """Its process seems to have ended."""


def earliest(*deadlines: int | None) -> int | None:
    return min((deadline for deadline in deadlines if deadline is not None), default=None)
