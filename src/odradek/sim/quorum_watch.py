"""Inspects all members of the quorum while they run: checks what must hold of the metadata log at every moment.

Named as in docs/internals/simulation.md.
"""

from __future__ import annotations

from itertools import pairwise

from odradek.quorum.voters import VoterKey, VoterSet
from odradek.sim.history import Violation
from odradek.sim.ledger import Ledger
from odradek.sim.loop import Host
from odradek.sim.truth import Running


class QuorumWatch:
    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}
        self._committed = Ledger("Q5", "the metadata log")
        self._epochs: dict[Host, int] = {}
        self._committed_to: dict[Host, int] = {}
        # By node, disk and epoch, as stored: a vote outlives the process that cast it.
        self._votes: dict[tuple[int, bytes | None, int], VoterKey] = {}
        self._voters_seen: dict[Host, list[tuple[int, VoterSet]]] = {}

    def look(self, each: Running) -> None:
        self._look_at_election(each)
        self._look_at_log(each)
        self._look_at_voters(each)

    def _look_at_election(self, each: Running) -> None:
        core = each.quorum.core
        epoch = core.leader_epoch
        if each.quorum.is_leading:
            leader = self._leaders.setdefault(epoch, each.number)
            if leader != each.number:
                raise Violation(f"Q1 nodes {leader} and {each.number} both lead the metadata log in {epoch}")
        # Across a restart it may go back: an epoch that was not on disk yet was not sent to any node either.
        if epoch < self._epochs.get(each.host, -1):
            raise Violation(f"Q2 node {each.number} went back to epoch {epoch} of the metadata log")
        self._epochs[each.host] = epoch
        election = each.durable_election()
        if election.voted is not None:
            first = self._votes.setdefault((each.number, each.directory_id, election.leader_epoch), election.voted)
            if first != election.voted:
                raise Violation(
                    f"Q8 node {each.number} voted for {first.voter_id} and for {election.voted.voter_id} "
                    f"in {election.leader_epoch}"
                )

    def _look_at_log(self, each: Running) -> None:
        log = each.quorum.log
        committed = each.quorum.feed.image.offset + 1
        if committed < self._committed_to.get(each.host, 0):
            raise Violation(f"Q3 the metadata of node {each.number} went back to {committed}")
        self._committed_to[each.host] = committed
        self._committed.compare(each.host, log, committed)
        # A leader of an old epoch, which has not heard of the new one yet, may lack records committed since.
        if each.quorum.is_leading and each.quorum.core.leader_epoch >= max(self._epochs.values()):
            end = log.log_end_offset
            if end < self._committed.end:
                raise Violation(f"Q6 node {each.number} leads with {end} of {self._committed.end} committed records")
        snapshots = each.quorum.snapshots.known
        if log.offline is None and log.log_start_offset > max(
            (snapshot.end_offset for snapshot in snapshots), default=0
        ):
            raise Violation(
                f"Q9 the log of node {each.number} begins at {log.log_start_offset}, snapshots: {snapshots}"
            )

    def _look_at_voters(self, each: Running) -> None:
        """Q10. Voters from a snapshot may differ by more than one step from those before."""
        sets, seen = each.voter_sets(), self._voters_seen.get(each.host, [])
        self._voters_seen[each.host] = sets
        news = sets[max(0, len(seen) - 1) :] if seen and sets[: len(seen)] == seen else []
        for (since, before), (offset, after) in pairwise(news):
            if since < each.quorum.log.log_start_offset:
                continue
            changed = [key for key in (*before.keys, *after.keys) if (key in before.keys) != (key in after.keys)]
            if len(changed) > 1:
                raise Violation(f"Q10 at {offset} more than one voter changes: {before.keys} to {after.keys}")
