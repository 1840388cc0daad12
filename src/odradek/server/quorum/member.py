"""This node as a member of the quorum."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.base.ids import BrokerId
from odradek.base.limits import MIB
from odradek.quorum.timing import QuorumTiming
from odradek.quorum.voters import Endpoint, Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Without an endpoint other nodes cannot reach it: it is an observer, or the only voter."""

    voter: Voter
    cluster_id: str
    timing: QuorumTiming
    # Where to ask for the leader while no voters are known.
    bootstrap: tuple[Endpoint, ...] = ()
    # Whether it asks to become a voter when it is none.
    joins: bool = False
    snapshot_every_bytes: int = 20 * MIB
    segment_bytes: int = 1024 * MIB

    @property
    def node_id(self) -> BrokerId:
        return self.voter.key.voter_id

    @property
    def bootstrap_by_id(self) -> dict[BrokerId, Endpoint]:
        """Under ids that no node has, as Kafka counts them."""
        return {BrokerId(-2 - index): endpoint for index, endpoint in enumerate(self.bootstrap)}
