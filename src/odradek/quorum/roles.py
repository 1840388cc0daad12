"""The roles of a quorum member, and the allowed transitions."""

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


# Each comment lists the reasons for the transitions, in order. Observers are only unattached or followers.
NEXT_ROLES = {
    # A newer epoch; the election timeout; a leader.
    Role.UNATTACHED: (Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER),
    # A newer epoch; the fetch timeout; another leader.
    Role.FOLLOWER: (Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER),
    # A newer epoch, or too few pre-votes; enough pre-votes; the last leader may still be there.
    Role.PROSPECTIVE: (Role.UNATTACHED, Role.CANDIDATE, Role.FOLLOWER),
    # A newer epoch; the election timeout; enough votes; another node won.
    Role.CANDIDATE: (Role.UNATTACHED, Role.PROSPECTIVE, Role.LEADER, Role.FOLLOWER),
    # A newer epoch; no contact to a majority, a shutdown or its removal from the voters; a leader of a newer epoch.
    Role.LEADER: (Role.UNATTACHED, Role.RESIGNED, Role.FOLLOWER),
    # A newer epoch, or no other node stood; the only voter; another leader. It never leads the same epoch again:
    # lost records and new ones could have the same offset and epoch.
    Role.RESIGNED: (Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER),
}


class RoleState(ABC):
    """The state and behaviour of a member in one role."""

    role: Role
    # Whether a member in this role may vote for another node in this epoch, if it has not voted yet.
    may_vote = False

    def __init__(self, replica: Replica) -> None:
        self.replica = replica

    @abstractmethod
    def deadline_ms(self) -> int | None:
        """When `tick` is due."""

    def begin(self) -> None:
        """The role was just taken."""

    def end(self) -> None:
        """The role ends."""

    def tick(self) -> None:
        """The deadline was reached, or nearly."""

    def log_synced(self) -> None:
        """Our own log is durable up to a new end."""

    def voters_changed(self) -> None:
        """The voter set has changed."""

    def would_vote(self) -> bool:
        """Whether to grant a pre-vote to an up-to-date candidate (KIP-996)."""
        return True

    def answered(self, request: Request, answer: Answer) -> None:
        """A peer answered, without error and in this epoch."""

    def failed(self, request: Request) -> None:
        """The request was not answered, or with an error."""

    def over(self, request: Request) -> None:
        """The request has ended, with or without an answer."""

    def peer_gone(self, peer: BrokerId) -> None:
        """Its process seems to have ended."""


def earliest(*deadlines: int | None) -> int | None:
    return min((deadline for deadline in deadlines if deadline is not None), default=None)
