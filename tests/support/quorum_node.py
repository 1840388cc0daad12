"""A member of a simulated quorum: a process that may end at any time, and its disk."""

from __future__ import annotations

import itertools

from odradek.base.ids import BrokerId, DirectoryId
from odradek.quorum.election import NEVER_ELECTED
from odradek.quorum.events import Started
from odradek.quorum.quorum import Quorum
from odradek.quorum.timing import QuorumTiming
from odradek.quorum.voters import Voter, VoterKey, VoterSet
from support.quorum_log import FakeLog

TIMING = QuorumTiming(election_timeout_ms=100, fetch_timeout_ms=200, election_backoff_max_ms=100, retry_backoff_ms=10)
CLUSTER = "cluster"


class Node:
    """A member's process and its disk."""

    def __init__(self, node_id: int, first_voters: VoterSet) -> None:
        self.id = node_id
        self.first_voters = first_voters
        self.lives = itertools.count()
        self.incarnation = (node_id, -1)
        self.up = False
        self.paused_until = 0
        self.lose_disk(0)

    def lose_disk(self, number: int) -> None:
        self.disk_number = number
        self.key = key_of(self.id, number)
        self.name = f"{self.id}/{number}"
        self.log = FakeLog()
        self.election = NEVER_ELECTED
        # The highest epoch that the process has sent to others since it has this disk.
        self.said_epoch = 0

    def start(self) -> None:
        self.incarnation = (self.id, next(self.lives))
        self.up = True
        self.leading = False
        self.high_watermark = -1
        self.last_epoch = -1
        self.syncing = False
        self.armed_ms = None
        self.core = Quorum(
            Voter(key=self.key),
            self.log,
            cluster_id=CLUSTER,
            timing=TIMING,
            bootstrap=tuple(voter.key.voter_id for voter in self.first_voters.voters),
        )

    @property
    def started(self) -> Started:
        newest = self.log.newest_voters()
        return Started(
            election=self.election,
            voters=newest[0] if newest else self.first_voters,
            voters_in_log=newest is not None,
        )


def key_of(node_id: int, number: int = 0) -> VoterKey:
    return VoterKey(BrokerId(node_id), DirectoryId(bytes([node_id, number]) * 8))
